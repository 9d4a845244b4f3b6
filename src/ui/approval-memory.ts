import { isDeepStrictEqual } from "node:util";

/** The scope of a decision: this call only, or identical calls of the session, too. */
export type RememberOption = "none" | "session";

/** A decision about a call, by a person or by the approval mode. */
export interface ApprovalDecision {
  approved: boolean;
  /** The reason, as a sentence. */
  note?: string;
  /** Default: `none`. */
  remember?: RememberOption;
  /** Arguments to use instead of the requested ones. */
  modifiedArgs?: Record<string, unknown>;
}

interface Remembered {
  toolName: string;
  toolArgs: unknown;
  /** Identifies what the call would do, where that does not follow from its arguments. */
  effect?: string | undefined;
  decision: ApprovalDecision;
}

/** Remembered decisions of a session, by tool, arguments and effect. The order of keys does not matter. */
export class ApprovalMemory {
  #remembered: Remembered[] = [];

  lookup(toolName: string, toolArgs: unknown, effect?: string): ApprovalDecision | undefined {
    return this.#remembered.find((one) => isSame(one, { toolName, toolArgs, effect }))?.decision;
  }

  /** Stores a decision if it is to be remembered for the session. The arguments are copied. */
  store(toolName: string, toolArgs: unknown, decision: ApprovalDecision, effect?: string): void {
    if (decision.remember !== "session") return;
    this.remove(toolName, toolArgs, effect);
    this.#remembered.push({ toolName, toolArgs: structuredClone(toolArgs), effect, decision });
  }

  remove(toolName: string, toolArgs: unknown, effect?: string): void {
    this.#remembered = this.#remembered.filter((one) => !isSame(one, { toolName, toolArgs, effect }));
  }

  clear(): void {
    this.#remembered = [];
  }

  listApprovals(): Remembered[] {
    return [...this.#remembered];
  }

  get size(): number {
    return this.#remembered.length;
  }
}

type Call = Omit<Remembered, "decision">;

function isSame(one: Call, two: Call): boolean {
  return one.toolName === two.toolName && one.effect === two.effect && isDeepStrictEqual(one.toolArgs, two.toolArgs);
}
