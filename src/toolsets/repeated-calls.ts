import { canonicalJson } from "#domain/approval.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { PreparedCall } from "./toolbox.ts";
import type { FinishedCall } from "./toolset.ts";

/**
 * Recognises calls of read-only tools that would return what the model has already read. A call that may have changed
 * something in between makes a repetition worthwhile, and so does a failure of the first one.
 */
export class RepeatedCalls {
  readonly #history: () => readonly FinishedCall[];
  readonly #find: (name: string) => NamedTool | undefined;
  /** The reads reviewed in the current turn: the id of the first call with each name and arguments. */
  #turn = { step: 0, reads: new Map<string, string>() };

  /** `history` returns every finished call, oldest first. */
  constructor(history: () => readonly FinishedCall[], find: (name: string) => NamedTool | undefined) {
    this.#history = history;
    this.#find = find;
  }

  /** True if this turn already has an equal call. Otherwise this call is the turn's first. */
  isRedundant(prepared: PreparedCall, step: number): boolean {
    const { call, tool, args } = prepared;
    if (this.#turn.step !== step) this.#turn = { step, reads: new Map() };
    const { reads } = this.#turn;
    if (!tool.readOnly) {
      reads.clear();
      return false;
    }

    if (this.#lastEqual(prepared)?.step === step) return true;

    const key = `${tool.name} ${canonicalJson(args)}`;
    const first = reads.get(key);
    if (first !== undefined && first !== call.callId && !this.#hasFailed(first)) return true;
    reads.set(key, call.callId);
    return false;
  }

  /** A note for the model if an earlier turn has an equal call. */
  warningFor(prepared: PreparedCall, step: number): string | undefined {
    const before = prepared.tool.readOnly ? this.#lastEqual(prepared) : undefined;
    if (!before || before.step >= step) return undefined;

    const turns = step - before.step;
    const ago = turns === 1 ? "1 turn ago" : `${turns} turns ago`;
    return `Note: the same call of ${prepared.tool.name} was previously made in turn ${before.step} (${ago}), and nothing has changed since. Its result should still be in your context.`;
  }

  #hasFailed(callId: string): boolean {
    return this.#history().findLast((finished) => finished.callId === callId)?.result.error !== undefined;
  }

  #lastEqual({ call, tool, args }: PreparedCall): FinishedCall | undefined {
    // The log may hold the arguments as they were given or as they were validated.
    const wanted = new Set([canonicalJson(call.args), canonicalJson(args)]);
    for (const finished of this.#history().toReversed()) {
      if (finished.callId === call.callId || finished.result.error) continue;

      const finishedTool = this.#find(finished.tool);
      if (finishedTool === tool && !finished.byPerson && wanted.has(canonicalJson(finished.args))) return finished;
      if (!finishedTool?.readOnly) return undefined;
    }
    return undefined;
  }
}
