import { isDeepStrictEqual } from "node:util";

/** How long a decision counts: for this call, or for equal calls of the session too. */
export type RememberOption = "none" | "session";

/** What a person, or a mode in their place, decided about a call. */
export interface ApprovalDecision {
  approved: boolean;
  /** Why, as a sentence. */
  note?: string;
  /** Default: `none`. */
  remember?: RememberOption;
  /** Arguments to run instead of those that were asked. */
  modifiedArgs?: Record<string, unknown>;
}

interface Remembered {
  toolName: string;
  toolArgs: unknown;
  decision: ApprovalDecision;
}

/** Decisions of a session, found by tool and deeply equal arguments: the order of keys does not count. */
export class ApprovalMemory {
  #remembered: Remembered[] = [];

  lookup(toolName: string, toolArgs: unknown): ApprovalDecision | undefined {
    return this.#remembered.find((one) => one.toolName === toolName && isDeepStrictEqual(one.toolArgs, toolArgs))
      ?.decision;
  }

  /** Keeps a decision that is to be remembered for the session, and no other. Later changes of the arguments do not reach it. */
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
