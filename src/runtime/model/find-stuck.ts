import { canonicalJson } from "#domain/approval.ts";
import type { LoggedEvent, ModelCall } from "#domain/events.ts";
import type { NamedTool } from "#domain/tool.ts";
import { foldForward } from "#runtime/read-log.ts";
import { failuresIn } from "./transcript.ts";

/** The number of times the same call may fail with the same error before the run ends. */
const maxFailures = 4;

/**
 * Returns why a run is stuck, as a sentence, or undefined when it is not. A run is stuck when the same call failed several
 * times with the same error, and nothing was changed and no person wrote or did anything in between.
 */
export function findStuck(
  log: readonly LoggedEvent[],
  find: (tool: string) => Pick<NamedTool, "readOnly"> | undefined,
): string | undefined {
  const { succeeded, failures } = attemptsOf(log);
  for (const { ids, call, text } of failures.values()) {
    if (ids.length < maxFailures) continue;
    const lastChange = succeeded.findLast(({ tool }) => !find(tool)?.readOnly)?.id ?? 0;
    const count = ids.filter((id) => id > lastChange).length;
    if (count >= maxFailures) return describeStuck(call, count, text);
  }
  return undefined;
}

interface Attempts {
  calls: ModelCall[];
  /** Calls that succeeded since a person last wrote or did something. */
  succeeded: { id: number; tool: string }[];
  /** The failures since then, by call and error, with the ids of their events. */
  failures: Map<string, { call: ModelCall; text: string; ids: number[] }>;
}

const attemptsOf = foldForward(
  (): Attempts => ({ calls: [], succeeded: [], failures: new Map() }),
  (attempts, { id, event }) => {
    if (event.type === "model.answered") attempts.calls = event.calls;
    if (event.type === "message.received" || event.type === "run.resume" || event.type === "tool.invoked") {
      attempts.succeeded = [];
      attempts.failures.clear();
    }
    if (event.type === "tool.finished" && !event.result.error) attempts.succeeded.push({ id, tool: event.tool });

    for (const { callId, text } of failuresIn(event)) {
      const call = attempts.calls.find((made) => made.callId === callId);
      if (!call) continue;
      const key = canonicalJson([call.tool, call.args, text]);
      const known = attempts.failures.get(key);
      if (known) known.ids.push(id);
      else attempts.failures.set(key, { call, text, ids: [id] });
    }
  },
);

function describeStuck({ tool }: ModelCall, count: number, text: string): string {
  const error = text.replace(/\s+/g, " ").slice(0, 300);
  return `The worker is stuck: it made the same call of ${tool} ${count} times, and each time it failed with: ${error}`;
}
