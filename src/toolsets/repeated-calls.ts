import { canonicalJson } from "#domain/approval.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { FinishedCall } from "./toolset.ts";

/** A call about to be reviewed or run. */
interface CheckedCall {
  callId: string;
  tool: NamedTool;
  /** The arguments as the model gave them and as they were understood: either may be what the log has. */
  args: readonly [given: unknown, checked: unknown];
  /** Which call of the model asks for it: the turn. */
  step: number;
}

/** Knows which reading calls say nothing new. Calls that changed something in between make a repetition worthwhile. */
export interface RepeatedCalls {
  /** True when this turn already has the same call; otherwise it has it from now on. */
  isRedundant(call: CheckedCall): boolean;
  /** A sentence for the model when an earlier turn has the same call. */
  warning(call: CheckedCall): string | undefined;
}

/** Only tools that are `readOnly` repeat themselves. `history` holds finished calls, oldest first. */
export function watchRepeatedCalls(
  history: () => readonly FinishedCall[],
  find: (name: string) => NamedTool | undefined,
): RepeatedCalls {
  let reviewed = { step: 0, reads: new Map<string, string>() };

  function lastEqual(call: CheckedCall): FinishedCall | undefined {
    const wanted = new Set(call.args.map(canonicalJson));
    for (const finished of history().toReversed()) {
      if (finished.callId === call.callId || finished.result.error) continue;

      const tool = find(finished.tool);
      if (tool === call.tool && !finished.byPerson && wanted.has(canonicalJson(finished.args))) return finished;
      if (!tool?.readOnly) return undefined;
    }
    return undefined;
  }

  return {
    isRedundant(call) {
      if (reviewed.step !== call.step) reviewed = { step: call.step, reads: new Map() };
      if (!call.tool.readOnly) {
        reviewed.reads.clear();
        return false;
      }
      if (lastEqual(call)?.step === call.step) return true;

      const key = `${call.tool.name} ${canonicalJson(call.args[1])}`;
      const first = reviewed.reads.get(key);
      if (first === undefined) reviewed.reads.set(key, call.callId);
      return first !== undefined && first !== call.callId;
    },
    warning(call) {
      const before = call.tool.readOnly ? lastEqual(call) : undefined;
      if (!before || before.step >= call.step) return undefined;

      const turns = call.step - before.step;
      const ago = turns === 1 ? "1 turn ago" : `${turns} turns ago`;
      return `Note: this very call of ${call.tool.name} was previously made in turn ${before.step} (${ago}) and nothing was changed since. Its result should still be in your context.`;
    },
  };
}
