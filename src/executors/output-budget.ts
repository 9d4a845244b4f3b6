/** Collects output and keeps its head and its tail within a budget. */
export type OutputBudget = ReturnType<typeof outputBudget>;

/** The bytes that a cut searches back for the end of a word. A secret that is cut in half would not be recognized. */
const maxWordBytes = 4_096;

/** Keeps at most `bytes` bytes: the first and the last half of them, in whole words. Invalid UTF-8 becomes U+FFFD. */
export function outputBudget(bytes: number) {
  const half = Math.max(1, Math.floor(bytes / 2));
  const head: Uint8Array[] = [];
  let tail: Uint8Array[] = [];
  let headBytes = 0;
  let tailBytes = 0;
  let seen = 0;

  function push(chunk: Uint8Array): void {
    seen += chunk.length;
    const toHead = chunk.subarray(0, Math.max(0, half - headBytes));
    if (toHead.length > 0) head.push(toHead);
    headBytes += toHead.length;

    const rest = chunk.subarray(toHead.length);
    if (rest.length === 0) return;
    tail.push(rest.subarray(Math.max(0, rest.length - half)));
    tailBytes += Math.min(rest.length, half);
    // Trimmed only at twice its size, so that not every small chunk causes a copy.
    if (tailBytes > half * 2) trimTail();
  }

  function trimTail(): void {
    const joined = Buffer.concat(tail);
    tail = [joined.subarray(Math.max(0, joined.length - half))];
    tailBytes = tail[0]?.length ?? 0;
  }

  return {
    push,
    /** All bytes that were received. */
    get receivedBytes(): number {
      return seen;
    },
    get truncated(): boolean {
      return seen > half * 2;
    },
    text(): string {
      trimTail();
      if (seen <= headBytes + tailBytes) return Buffer.concat([...head, ...tail]).toString("utf8");
      const before = toEndOfWord(Buffer.concat(head));
      const after = fromStartOfWord(Buffer.concat(tail));
      const left = seen - before.length - after.length;
      const cut = `\n… ${left.toLocaleString("en-US")} bytes left out …\n`;
      return `${before.toString("utf8")}${cut}${after.toString("utf8")}`;
    },
  };
}

function toEndOfWord(head: Buffer): Buffer {
  for (let end = head.length; end > Math.max(0, head.length - maxWordBytes); end -= 1) {
    if (isSpace(head[end - 1])) return head.subarray(0, end);
  }
  return head;
}

function fromStartOfWord(tail: Buffer): Buffer {
  for (let start = 0; start < Math.min(tail.length, maxWordBytes); start += 1) {
    if (isSpace(tail[start])) return tail.subarray(start + 1);
  }
  return tail;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
