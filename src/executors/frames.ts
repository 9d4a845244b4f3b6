import type { Readable, Writable } from "node:stream";
import { deserialize, serialize } from "node:v8";

const headerBytes = 4;

/** Writes one value with its length before it. */
export function writeFrame(stream: Writable, value: unknown): void {
  const body = serialize(value);
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32BE(body.length);
  stream.write(header);
  stream.write(body);
}

/** Reads values as `writeFrame` wrote them. A frame longer than `maxBytes` is a failure before a byte of it is kept. */
export function readFrames(
  stream: Readable,
  { maxBytes, onFrame, onFailure }: { maxBytes: number; onFrame(value: unknown): void; onFailure(error: Error): void },
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

  let expected: number | undefined;
  stream.on("data", (chunk: Buffer) => {
    if (failed) return;
    chunks.push(chunk);
    held += chunk.length;
    for (;;) {
      if (expected === undefined) {
        if (held < headerBytes) return;
        expected = take(headerBytes).readUInt32BE();
        if (expected > maxBytes) return fail(new Error(`A frame of ${expected} bytes is too long`));
      }
      if (held < expected) return;
      const body = take(expected);
      expected = undefined;
      try {
        onFrame(deserialize(body));
      } catch (error) {
        return fail(error instanceof Error ? error : new Error(String(error)));
      }
    }
  });
}
