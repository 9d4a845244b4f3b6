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
  decision: ApprovalDecision;
}

/** Remembered decisions of a session, by tool and arguments. The order of keys does not matter. */
export class ApprovalMemory {
  #remembered: Remembered[] = [];

  lookup(toolName: string, toolArgs: unknown): ApprovalDecision | undefined {
    return this.#remembered.find((one) => one.toolName === toolName && isDeepStrictEqual(one.toolArgs, toolArgs))
      ?.decision;
  }

  /** Stores a decision if it is to be remembered for the session. The arguments are copied. */
  store(toolName: string, toolArgs: unknown, decision: ApprovalDecision): void {
    if (decision.remember !== "session") return;

    const others = this.#remembered.filter(
      (one) => one.toolName !== toolName || !isDeepStrictEqual(one.toolArgs, toolArgs),
    );
    this.#remembered = [...others, { toolName, toolArgs: structuredClone(toolArgs), decision }];
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
