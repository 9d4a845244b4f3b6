import type { Readable, Writable } from "node:stream";
import { hasMoreValues } from "#text/json-values.ts";

/** Two 32-bit lengths: of the whole frame and of its JSON. */
const headerBytes = 8;

/** Binary data and long strings follow the JSON unencoded, since parsed JSON can take ten times its size in memory. */
const maxInlineLength = 1_024;

/** A placeholder in the JSON for data that follows it: its offset and its length. */
type Part = { $bytes: [start: number, length: number] } | { $text: [start: number, length: number] };

/** Writes one value of plain data, which may contain bytes, as a frame: lengths, JSON, data. */
export function writeFrame(stream: Writable, value: unknown): void {
  const parts: Uint8Array[] = [];
  let length = 0;

  function keep(bytes: Uint8Array): [number, number] {
    parts.push(bytes);
    length += bytes.length;
    return [length - bytes.length, bytes.length];
  }

  function inline(member: unknown): unknown {
    if (typeof member === "string" && member.length > maxInlineLength) {
      return { $text: keep(Buffer.from(member)) } satisfies Part;
    }
    if (typeof member !== "object" || member === null || member instanceof Date) return member;
    if (member instanceof Uint8Array) return { $bytes: keep(member) } satisfies Part;
    if (Array.isArray(member)) return member.map(inline);
    return Object.fromEntries(Object.entries(member).map(([key, inner]) => [key, inline(inner)]));
  }

  const json = Buffer.from(JSON.stringify(inline(value)));
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32BE(json.length + length, 0);
  header.writeUInt32BE(json.length, 4);
  writeJoined(stream, [header, json, ...parts]);
}

const maxJoinedBytes = 256 * 1024;

/** Joins small parts, since a write per part would take longer than the copy. Large parts are not copied. */
function writeJoined(stream: Writable, parts: readonly Uint8Array[]): void {
  let joined: Uint8Array[] = [];
  let bytes = 0;
  const flush = () => {
    if (bytes > 0) stream.write(joined.length === 1 ? joined[0] : Buffer.concat(joined));
    joined = [];
    bytes = 0;
  };
  for (const part of parts) {
    if (bytes + part.length > maxJoinedBytes) flush();
    joined.push(part);
    bytes += part.length;
  }
  flush();
}

export interface FrameLimits {
  /** The maximum size of a frame. */
  maxBytes: number;
  /** The maximum size of its JSON, without the data that follows it. */
  maxJsonBytes: number;
  /** The maximum number of values in its JSON. */
  maxValues: number;
}

/**
 * Reads values that `writeFrame` wrote. The sender may be malicious, so a frame above the limits is rejected before it
 * is buffered, and the values never take much more memory than the frame: inconsistent lengths are an error.
 */
export function readFrames(
  stream: Readable,
  {
    maxBytes,
    maxJsonBytes,
    maxValues,
    onFrame,
    onFailure,
  }: FrameLimits & { onFrame(value: unknown): void; onFailure(error: Error): void },
): void {
  let chunks: Buffer[] = [];
  let held = 0;
  let failed = false;

  function fail(error: Error): void {
    failed = true;
    chunks = [];
    onFailure(error);
  }

  function take(length: number): Buffer {
    const joined = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
    chunks = [joined.subarray(length)];
    held -= length;
    return joined.subarray(0, length);
  }

  let expected: { whole: number; json: number } | undefined;
  stream.on("data", (chunk: Buffer) => {
    if (failed) return;
    chunks.push(chunk);
    held += chunk.length;
    while (!failed) {
      if (expected === undefined) {
        if (held < headerBytes) return;
        const header = take(headerBytes);
        expected = { whole: header.readUInt32BE(0), json: header.readUInt32BE(4) };
        const { whole, json } = expected;
        if (whole > maxBytes || json > maxJsonBytes || json > whole) {
          return fail(new Error(`A frame of ${whole} bytes, ${json} of them JSON, is refused`));
        }
      }
      if (held < expected.whole) return;
      const frame = take(expected.whole);
      const { json } = expected;
      expected = undefined;
      try {
        const text = frame.subarray(0, json);
        if (hasMoreValues(text, maxValues)) throw new Error(`A frame of more than ${maxValues} values is refused`);
        onFrame(parseFrame(text, frame.subarray(json)));
      } catch (error) {
        return fail(error instanceof Error ? error : new Error(String(error)));
      }
    }
  });
}

function parseFrame(json: Buffer, data: Buffer): unknown {
  let left = data.length;

  function partOf(reference: unknown): Buffer {
    const [start, length] = Array.isArray(reference) ? reference : [];
    const isValid = [start, length].every(Number.isSafeInteger) && start >= 0 && length >= 0;
    // The parts may not exceed the data in total, since one part that is referenced 1,000 times would become 1,000
    // strings.
    if (!isValid || length > left || start + length > data.length)
      throw new Error("A frame refers to data outside of it");
    left -= length;
    return data.subarray(start, start + length);
  }

  function restore(member: unknown): unknown {
    if (typeof member !== "object" || member === null) return member;
    if ("$bytes" in member) return partOf(member.$bytes);
    if ("$text" in member) return partOf(member.$text).toString("utf8");
    const members = member as Record<string, unknown>;
    for (const key in members) {
      const value = members[key];
      // Safe for `__proto__` too: JSON.parse has created it as an ordinary key, which the assignment replaces.
      if (typeof value === "object" && value !== null) members[key] = restore(value);
    }
    return member;
  }

  return restore(JSON.parse(json.toString("utf8")));
}
