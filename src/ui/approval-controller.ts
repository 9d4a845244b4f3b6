import { UserError } from "#domain/errors.ts";
import { type ApprovalDecision, ApprovalMemory } from "./approval-memory.ts";

/** `interactive` asks the callback, `approve_all` is for tests and trusted places, `auto_deny` for places without people. */
export type ApprovalMode = "interactive" | "approve_all" | "auto_deny";

/** A call somebody must agree to. `tool`, `args` and `reason` are other names for the first three. */
export type ApprovalRequest = {
  /** The worker's path from the root. */
  delegationPath?: string[];
  /** What the call would change: a unified diff or other plain text. */
  preview?: string;
  stepId?: string;
} & (
  | { toolName: string; toolArgs: Record<string, unknown>; description: string }
  | { tool: string; args: Record<string, unknown>; reason: string }
);

/** Asks a person. A rejection is passed on: nothing was approved then. */
export type ApprovalCallback = (request: ApprovalRequest) => Promise<ApprovalDecision> | ApprovalDecision;

export interface ApprovalControllerOptions {
  /** Default: `interactive`. */
  mode?: ApprovalMode;
  /** Needed in `interactive` mode. */
  approvalCallback?: ApprovalCallback;
  /** Milliseconds until an unanswered request is denied. Default: it waits. */
  timeoutMs?: number;
}

/** Decides calls that need approval, by its mode and by what was approved for the session. Any number may be open at once. */
export class ApprovalController {
  readonly mode: ApprovalMode;
  readonly memory = new ApprovalMemory();
  readonly #callback: ApprovalCallback | undefined;
  readonly #timeoutMs: number | undefined;

  constructor({ mode = "interactive", approvalCallback, timeoutMs }: ApprovalControllerOptions = {}) {
    if (!["interactive", "approve_all", "auto_deny"].includes(mode)) {
      throw new UserError(`There is no approval mode "${mode}": use interactive, approve_all or auto_deny.`);
    }
    if (mode === "interactive" && !approvalCallback) {
      throw new UserError(
        'ApprovalController in "interactive" mode requires an approvalCallback: give it one, or use "approve_all" or "auto_deny".',
      );
    }
    this.mode = mode;
    this.#callback = approvalCallback;
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves to a decision. A request that times out or is aborted is denied, and its note says so. */
  async requestApproval(
    request: ApprovalRequest,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<ApprovalDecision> {
    const { toolName, toolArgs } = readRequest(request);
    if (this.mode === "approve_all") return { approved: true, remember: "none" };
    if (this.mode === "auto_deny") {
      return { approved: false, note: `Auto-deny mode (auto_deny): ${toolName} requires approval`, remember: "none" };
    }

    const known = this.memory.lookup(toolName, toolArgs);
    if (known?.approved) return known;

    const decision = await this.#ask(request, signal);
    // Only approvals are kept: a denial must not stand in the way of a better moment. What ran is what was approved.
    if (decision.approved === true) this.memory.store(toolName, decision.modifiedArgs ?? toolArgs, decision);
    return decision;
  }

  /** True when an equal call was approved for the session. */
  isSessionApproved(request: ApprovalRequest): boolean {
    const { toolName, toolArgs } = readRequest(request);
    return this.memory.lookup(toolName, toolArgs)?.approved === true;
  }

  clearSessionApprovals(): void {
    this.memory.clear();
  }

  /** This controller as the callback of another. */
  getCallback(): ApprovalCallback {
    return (request) => this.requestApproval(request);
  }

  async #ask(request: ApprovalRequest, signal: AbortSignal | undefined): Promise<ApprovalDecision> {
    if (signal?.aborted) return denied("Approval request aborted");

    const { promise: stopped, resolve } = Promise.withResolvers<ApprovalDecision>();
    const abort = () => resolve(denied("Approval request aborted"));
    const timer =
      this.#timeoutMs === undefined ? undefined : setTimeout(() => resolve(this.#timedOut()), this.#timeoutMs);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      const answer = Promise.resolve().then(() => (this.#callback as ApprovalCallback)(request));
      return await Promise.race([answer, stopped]);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  #timedOut(): ApprovalDecision {
    return denied(`Approval request timed out after ${this.#timeoutMs} ms`);
  }
}

function denied(note: string): ApprovalDecision {
  return { approved: false, note, remember: "none" };
}

function readRequest(request: ApprovalRequest): { toolName: string; toolArgs: Record<string, unknown> } {
  return "toolName" in request
    ? { toolName: request.toolName, toolArgs: request.toolArgs }
    : { toolName: request.tool, toolArgs: request.args };
}
