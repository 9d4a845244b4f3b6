import type { Writable } from "node:stream";
import type { RuntimeEvent } from "#ui/runtime-events.ts";

/** Tells a script what happens. */
export type JsonLines = (event: RuntimeEvent | { type: "result" | "dry_run"; [more: string]: unknown }) => void;

/** Writes one event per line. What a model was sent is counted and left out. */
export function createJsonLines(output: Writable): JsonLines {
  return (event) => {
    const { messages, ...rest } = event as { messages?: unknown[] };
    output.write(`${JSON.stringify(messages ? { ...rest, messageCount: messages.length } : rest)}\n`);
  };
}
