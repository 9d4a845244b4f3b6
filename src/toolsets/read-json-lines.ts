import type { Readable } from "node:stream";

interface JsonLinesOptions {
  maxBytes: number;
  /** Receives the number of bytes that arrived, before they are parsed. */
  onBytes?(count: number): void;
  onValue(value: unknown): void;
  /** Receives a line that is not valid JSON and is skipped. By default, such a line is a failure. */
  onInvalidLine?(line: string): void;
  /** Called on a failure, after which nothing more is read. */
  onFailure(reason: string): void;
}

/**
 * Reads a stream of JSON lines. A line longer than `maxBytes` is a failure. Unlike richer formats, JSON only creates
 * plain data of about the size it arrived in.
 */
export function readJsonLines(stream: Readable, options: JsonLinesOptions): void {
  const { maxBytes, onBytes = () => {}, onValue, onInvalidLine, onFailure } = options;
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let failed = false;

  function fail(reason: string): void {
    failed = true;
    pending = [];
    onFailure(reason);
  }

  function readLine(line: string): void {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      if (onInvalidLine) onInvalidLine(line);
      else fail("it sent a line that is not valid JSON");
      return;
    }
    onValue(value);
  }

  stream.on("data", (chunk: Buffer) => {
    if (failed) return;
    onBytes(chunk.length);
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1 && !failed; end = chunk.indexOf(10, from)) {
      pending.push(chunk.subarray(from, end));
      from = end + 1;
      const line = Buffer.concat(pending).toString("utf8");
      pending = [];
      pendingBytes = 0;
      readLine(line);
    }
    if (failed) return;
    pending.push(chunk.subarray(from));
    pendingBytes += chunk.length - from;
    if (pendingBytes > maxBytes) fail("it sent a line that is too long");
  });
}
