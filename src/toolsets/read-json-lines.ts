import type { Readable } from "node:stream";
import { EventLoopYielder } from "#domain/async-work.ts";
import { hasMoreValues } from "#text/json-values.ts";

interface JsonLinesOptions {
  maxBytes: number;
  /** The maximum number of values in a line, which are parsed in one turn of the event loop. */
  maxValues: number;
  /** Receives the number of bytes that were read. */
  onBytes?(count: number): void;
  onValue(value: unknown): void;
  /** Receives a line that is not valid JSON and is skipped. By default, such a line is a failure. */
  onInvalidLine?(line: string): void;
  /** Called on a failure, after which nothing more is read. */
  onFailure(reason: string): void;
}

/**
 * Reads a stream of JSON lines. A line longer than `maxBytes`, or with too many values, is a failure. Unlike richer formats, JSON only creates
 * plain data of about the size it arrived in.
 */
export function readJsonLines(stream: Readable, options: JsonLinesOptions): void {
  const { maxBytes, maxValues, onBytes = () => {}, onValue, onInvalidLine, onFailure } = options;
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let failed = false;

  function fail(reason: string): void {
    failed = true;
    pending = [];
    onFailure(reason);
  }

  function readLine(bytes: Buffer): void {
    if (hasMoreValues(bytes, maxValues)) {
      fail(`it sent a line with more than ${maxValues} values`);
      return;
    }
    const line = bytes.toString("utf8");
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

  const loop = new EventLoopYielder();
  /** Many short lines also take long. The stream ends only after it has emitted them all. */
  function readLater(rest: Buffer): void {
    stream.pause();
    stream.unshift(rest);
    void loop.turn().then(() => stream.resume());
  }

  stream.on("data", (chunk: Buffer) => {
    if (failed) return;
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1 && !failed; end = chunk.indexOf(10, from)) {
      pending.push(chunk.subarray(from, end));
      from = end + 1;
      const line = Buffer.concat(pending);
      pending = [];
      pendingBytes = 0;
      readLine(line);
      if (loop.isDue && from < chunk.length && !failed) {
        onBytes(from);
        readLater(chunk.subarray(from));
        return;
      }
    }
    onBytes(chunk.length);
    if (failed) return;
    pending.push(chunk.subarray(from));
    pendingBytes += chunk.length - from;
    if (pendingBytes > maxBytes) fail("it sent a line that is too long");
  });
}
