import type { Readable } from "node:stream";

/**
 * Reads a stream of lines of JSON. JSON and not a richer format: it makes nothing but plain data, of about the size it
 * came in. A line longer than `maxBytes`, or one that is no JSON, is a failure, and the last thing heard.
 */
export function readJsonLines(
  stream: Readable,
  {
    maxBytes,
    onBytes = () => {},
    onValue,
    onFailure,
  }: {
    maxBytes: number;
    /** Hears how much arrived, before it is read. */
    onBytes?(count: number): void;
    onValue(value: unknown): void;
    onFailure(why: string): void;
  },
): void {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let failed = false;

  function fail(why: string): void {
    failed = true;
    held = [];
    onFailure(why);
  }

  function take(line: string): void {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      fail("it said what is no message");
      return;
    }
    onValue(value);
  }

  stream.on("data", (chunk: Buffer) => {
    if (failed) return;
    onBytes(chunk.length);
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1 && !failed; end = chunk.indexOf(10, from)) {
      held.push(chunk.subarray(from, end));
      from = end + 1;
      const line = Buffer.concat(held).toString("utf8");
      held = [];
      heldBytes = 0;
      take(line);
    }
    if (failed) return;
    held.push(chunk.subarray(from));
    heldBytes += chunk.length - from;
    if (heldBytes > maxBytes) fail("it said more at once than it may");
  });
}
