import { PassThrough } from "node:stream";
import { createEventCLIAdapter, type EventCLIAdapterOptions } from "#terminal/event-cli-adapter.ts";
import { recordedBus } from "./embed-world.ts";

/** A pretended terminal: what is typed goes in, what is written can be read and waited for. */
export function pseudoTerminal({ isTTY = false } = {}) {
  const input = new PassThrough();
  const output = Object.assign(new PassThrough(), { isTTY });
  let text = "";
  const watchers = new Set<() => void>();
  output.on("data", (chunk) => {
    text += String(chunk);
    for (const watcher of watchers) watcher();
  });
  return {
    input,
    output,
    text: () => text,
    type: (line: string) => input.write(`${line}\n`),
    /** Resolves once this was written. */
    async sees(wanted: string | RegExp) {
      while (!(typeof wanted === "string" ? text.includes(wanted) : wanted.test(text))) {
        const { promise, resolve } = Promise.withResolvers<void>();
        watchers.add(resolve);
        await promise;
        watchers.delete(resolve);
      }
    },
  };
}

/** An adapter over a pretended terminal and a bus that remembers. */
export async function terminalWorld(options: Partial<EventCLIAdapterOptions> & { isTTY?: boolean } = {}) {
  const { isTTY = false, ...rest } = options;
  const terminal = pseudoTerminal({ isTTY });
  const recorded = recordedBus();
  const adapter = createEventCLIAdapter(recorded.bus, { input: terminal.input, output: terminal.output, ...rest });
  await adapter.initialize();
  return { ...terminal, ...recorded, adapter };
}
