import type { Writable } from "node:stream";
import type { RuntimeEvent } from "#ui/runtime-events.ts";

/** Reports events to a script. */
export type JsonLines = (event: RuntimeEvent | { type: "result" | "dry_run"; [more: string]: unknown }) => void;

/** Writes one event per line. The messages sent to a model are replaced by their number. */
export function createJsonLines(output: Writable): JsonLines {
  return (event) => {
    const { messages, ...rest } = event as { messages?: unknown[] };
    output.write(`${JSON.stringify(messages ? { ...rest, messageCount: messages.length } : rest)}\n`);
  };
}
