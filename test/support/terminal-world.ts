import { PassThrough } from "node:stream";
import { createEventCLIAdapter, type EventCLIAdapterOptions } from "#terminal/event-cli-adapter.ts";
import { recordedBus } from "./embed-world.ts";

/** Creates a terminal from streams. Tests can type lines, and read and wait for output. */
export function pseudoTerminal({ isTTY = false, inputIsTTY = false } = {}) {
  const input = Object.assign(new PassThrough(), { isTTY: inputIsTTY });
  const output = Object.assign(new PassThrough(), { isTTY });
  let text = "";
  const watchers = new Set<() => void>();
  const show = (shown: string) => {
    text += shown;
    for (const watcher of watchers) watcher();
  };
  output.on("data", (chunk) => show(String(chunk)));
  return {
    input,
    output,
    /** Shows the output of another stream on the same screen. */
    show,
    text: () => text,
    type: (line: string) => input.write(`${line}\n`),
    /** Resolves when this text has been written. */
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

/** Creates an adapter with a terminal made of streams and a bus that records events. */
export async function terminalWorld(
  options: Partial<EventCLIAdapterOptions> & { isTTY?: boolean; inputIsTTY?: boolean } = {},
) {
  const { isTTY = false, inputIsTTY = false, ...rest } = options;
  const terminal = pseudoTerminal({ isTTY, inputIsTTY });
  const recorded = recordedBus();
  const adapter = createEventCLIAdapter(recorded.bus, { input: terminal.input, output: terminal.output, ...rest });
  await adapter.initialize();
  return { ...terminal, ...recorded, adapter };
}
