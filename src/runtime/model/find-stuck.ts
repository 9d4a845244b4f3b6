import { canonicalJson } from "#domain/approval.ts";
import type { LoggedEvent, ModelCall } from "#domain/events.ts";
import type { NamedTool } from "#domain/tool.ts";
import { failuresIn } from "./transcript.ts";

/** How often the same call may fail in the same way before the run ends. */
const mostFailures = 4;

/**
 * Why a run is going in circles, as a sentence; undefined while it is not. It is when one call failed again and again
 * with the same words, though nothing was changed and no person said anything in between.
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
      if (count >= mostFailures) return stuckAt(call, count, text);
    }
  }
  return undefined;
}

function stuckAt({ tool }: ModelCall, count: number, text: string): string {
  const said = text.replace(/\s+/g, " ").slice(0, 300);
  return `It went in circles: it made the same call of ${tool} ${count} times, and each time it failed with: ${said}`;
}
