import { canonicalJson } from "#domain/approval.ts";
import type { LoggedEvent, ModelCall } from "#domain/events.ts";
import type { NamedTool } from "#domain/tool.ts";
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
  const failures = new Map<string, number>();
  let calls: ModelCall[] = [];
  for (const { event } of log) {
    if (event.type === "model.answered") calls = event.calls;
    if (event.type === "message.received" || event.type === "run.resume" || event.type === "tool.invoked")
      failures.clear();
    if (event.type === "tool.finished" && !event.result.error && !find(event.tool)?.readOnly) failures.clear();

    for (const { callId, text } of failuresIn(event)) {
      const call = calls.find((made) => made.callId === callId);
      if (!call) continue;
      const key = canonicalJson([call.tool, call.args, text]);
      const count = (failures.get(key) ?? 0) + 1;
      failures.set(key, count);
      if (count >= maxFailures) return describeStuck(call, count, text);
    }
  }
  return undefined;
}

function describeStuck({ tool }: ModelCall, count: number, text: string): string {
  const error = text.replace(/\s+/g, " ").slice(0, 300);
  return `The worker is stuck: it made the same call of ${tool} ${count} times, and each time it failed with: ${error}`;
}
