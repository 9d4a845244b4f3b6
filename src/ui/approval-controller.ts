import { isDeepStrictEqual } from "node:util";
import { UserError } from "#domain/errors.ts";
import type { RequestBlock } from "./request-blocks.ts";

/** `interactive` asks the callback. `approve_all` is for tests and trusted environments, `auto_deny` for environments without people. */
export type ApprovalMode = "interactive" | "approve_all" | "auto_deny";

interface ApprovalDetails {
  /** Worker names from the root to the worker that makes the call. */
  delegationPath?: string[];
  /** The changes that the call would make, as a unified diff or other plain text. */
  preview?: string;
  /** The whole request, laid out for a person to read. */
  blocks?: readonly RequestBlock[];
  /** False if a part of the call is not shown: then an approval counts for this one call. */
  isShownWhole?: boolean;
  /** Identifies what the call would do. An approval for the session covers equal calls with the same effect. */
  effect?: string;
  /** The id of the call. */
  stepId?: string;
}

interface NamedCall {
  toolName: string;
  toolArgs: Record<string, unknown>;
  description: string;
}

/** The names of the same fields in other tool systems. */
interface OtherNames {
  tool: string;
  args: Record<string, unknown>;
  reason: string;
}

// biome-ignore lint/suspicious/noExplicitAny: a program may read either names of a request
type Readable<Names> = { [Name in keyof Names]?: any };

/** A call that needs approval, with either names of its fields. */
export type ApprovalRequest = ApprovalDetails &
  ((NamedCall & Readable<OtherNames>) | (OtherNames & Readable<NamedCall>));

/** A request as a callback receives it, with both names of each field. */
export interface RequestedApproval extends ApprovalDetails, NamedCall, OtherNames {}

/** Asks a person. If the promise rejects, the call is not approved, and the error is passed on. */
export type ApprovalCallback = (request: RequestedApproval) => Promise<ApprovalDecision> | ApprovalDecision;

export interface ApprovalControllerOptions {
  /** Default: `interactive`. */
  mode?: ApprovalMode;
  /** Required in `interactive` mode. */
  approvalCallback?: ApprovalCallback;
  /** Milliseconds until an unanswered request is denied. Default: no timeout. */
  timeoutMs?: number;
}

/** Decides about calls that need approval, by its mode and by earlier approvals for the session. Requests may be concurrent. */
export class ApprovalController {
  readonly mode: ApprovalMode;
  readonly memory = new ApprovalMemory();
  readonly #callback: ApprovalCallback | undefined;
  readonly #timeoutMs: number | undefined;

  constructor({ mode = "interactive", approvalCallback, timeoutMs }: ApprovalControllerOptions = {}) {
    if (!["interactive", "approve_all", "auto_deny"].includes(mode)) {
      throw new UserError(`Unknown approval mode "${mode}". Use interactive, approve_all or auto_deny.`);
    }
    if (mode === "interactive" && !approvalCallback) {
      throw new UserError(
        'ApprovalController in "interactive" mode requires an approvalCallback. Pass one, or use "approve_all" or "auto_deny".',
      );
    }
    this.mode = mode;
    this.#callback = approvalCallback;
    this.#timeoutMs = timeoutMs;
  }

  /** Requests a decision. A request that times out or is aborted is denied, with a note that says so. */
  async requestApproval(
    request: ApprovalRequest,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<ApprovalDecision> {
    const { toolName, toolArgs } = withAllNames(request);
    if (this.mode === "approve_all") return { approved: true, remember: "none" };
    if (this.mode === "auto_deny") {
      return { approved: false, note: `Auto-deny mode (auto_deny): ${toolName} requires approval`, remember: "none" };
    }

    const remembered = this.#remembered(request);
    if (remembered) return remembered;

    const decision = await this.#ask(request, signal);
    const { effect, isShownWhole = true } = request;
    // The person was not shown the effect of a call with edited arguments.
    const isSeen = isShownWhole && (decision.modifiedArgs === undefined || effect === undefined);
    // Denials are not remembered, because the same call may be right later. Approvals are remembered with the approved arguments.
    if (decision.approved === true && isSeen) {
      this.memory.store(toolName, decision.modifiedArgs ?? toolArgs, decision, effect);
    }
    return decision;
  }

  /** True if an identical call was approved for the session. */
  isSessionApproved(request: ApprovalRequest): boolean {
    return this.#remembered(request) !== undefined;
  }

  /** Forgets an approval for the session. */
  revoke(request: ApprovalRequest): void {
    const { toolName, toolArgs } = withAllNames(request);
    this.memory.remove(toolName, toolArgs, request.effect);
  }

  clearSessionApprovals(): void {
    this.memory.clear();
  }

  /** Returns this controller as a callback for another one. */
  getCallback(): (request: ApprovalRequest) => Promise<ApprovalDecision> {
    return (request) => this.requestApproval(request);
  }

  #remembered(request: ApprovalRequest): ApprovalDecision | undefined {
    if (request.isShownWhole === false) return undefined;
    const { toolName, toolArgs } = withAllNames(request);
    const decision = this.memory.lookup(toolName, toolArgs, request.effect);
    return decision?.approved === true ? decision : undefined;
  }

  async #ask(request: ApprovalRequest, signal: AbortSignal | undefined): Promise<ApprovalDecision> {
    if (signal?.aborted) return denied("Approval request aborted");

    const { promise: ended, resolve } = Promise.withResolvers<ApprovalDecision>();
    const abort = () => resolve(denied("Approval request aborted"));
    const timer =
      this.#timeoutMs === undefined
        ? undefined
        : setTimeout(() => resolve(denied(`Approval request timed out after ${this.#timeoutMs} ms`)), this.#timeoutMs);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      const answer = Promise.resolve().then(() => (this.#callback as ApprovalCallback)(withAllNames(request)));
      return await Promise.race([answer, ended]);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

function denied(note: string): ApprovalDecision {
  return { approved: false, note, remember: "none" };
}

/** Returns a request with both names of each field. */
export function withAllNames(request: ApprovalRequest): RequestedApproval {
  const { toolName = request.tool, toolArgs = request.args, description = request.reason } = request;
  return { ...request, toolName, toolArgs, description, tool: toolName, args: toolArgs, reason: description };
}

/** The scope of a decision: this call only, or identical calls of the session as well. */
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
