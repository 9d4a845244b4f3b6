import { createHash } from "node:crypto";
import { z } from "zod";
import { type Approval, approvalDigest, canonicalJson } from "#domain/approval.ts";
import { messageOf } from "#domain/errors.ts";
import type { RunEvent } from "#domain/events.ts";
import { boundPart, isShownWhole, type Preview } from "#domain/preview.ts";
import type { RunView } from "#domain/run.ts";
import type { FrontEnd, PostedComment, Question, ToolReply } from "#runtime/front-end.ts";
import type { Decision } from "#runtime/store/store.ts";
import { failedResult, resultOfError } from "#toolsets/tool-result.ts";
import type {
  ApprovalCallback,
  ApprovalController,
  ApprovalDecision,
  ApprovalRequest,
} from "#ui/approval-controller.ts";
import { previewText, requestBlocks } from "#ui/request-blocks.ts";
import type { RuntimeUI } from "#ui/runtime-ui.ts";
import { asRecord, type RunReporter } from "./run-reporter.ts";

/** The login of the person at the program, who has no account. */
export const person = "user";

/** The maximum delay of a timer, so that requests do not time out. */
const maxTimerMs = 2 ** 31 - 1;

/** A decision that a program made. It is stored, and the program may have been written for another system. */
const ProgramDecision = z.object({
  approved: z.unknown().transform((approved) => approved === true),
  note: z.string().optional().catch(undefined),
  remember: z.enum(["none", "session"]).optional().catch(undefined),
  modifiedArgs: z
    .record(z.string(), z.unknown())
    .transform((args): Record<string, unknown> => JSON.parse(JSON.stringify(args)))
    .optional(),
}) satisfies z.ZodType<ApprovalDecision>;

export interface ProgramFrontEndOptions {
  approvals: ApprovalController;
  ui: RuntimeUI | undefined;
  reporter: RunReporter;
  decide(decision: Decision): Promise<void>;
  deliver(runId: string, event: RunEvent): Promise<void>;
  /** Runs a person's call that has been confirmed with this word. */
  invoke(runId: string, call: { callId: string; tool: string; args: unknown; agreed: string }): Promise<void>;
  onOutcome(view: RunView): void;
  onError(error: unknown): void;
}

/**
 * Asks the person at a program for approvals, through the ApprovalController, and questions, on the bus. It does not wait
 * for requests, so any number may be open at once. The answers reach the runs as events.
 */
export class ProgramFrontEnd implements FrontEnd {
  readonly #options: ProgramFrontEndOptions;
  /** The controllers that withdraw open requests, by name of the request. */
  readonly #open = new Map<string, AbortController>();
  /** The approvals given for the session, by id. */
  readonly sessionApprovals = new Map<string, Approval>();

  constructor(options: ProgramFrontEndOptions) {
    this.#options = options;
  }

  canShow = (): boolean => true;

  async showApproval(_view: RunView, approval: Approval): Promise<PostedComment[]> {
    const name = `approval/${approval.id}`;
    if (approval.status === "pending") this.#ask(name, (signal) => this.#askApproval(approval, signal));
    else this.#withdraw(name);
    return [];
  }

  async askQuestion(_view: RunView, question: Question): Promise<number> {
    const name = `question/${question.runId}/${question.callId}`;
    if (question.end) this.#withdraw(name);
    else this.#ask(name, (signal) => this.#askQuestion(question, signal));
    return 0;
  }

  async showToolReply({ spec }: RunView, reply: ToolReply): Promise<PostedComment[]> {
    const { reporter } = this.#options;
    if (reply.kind === "refused") reporter.status("error", reply.message);
    if (reply.kind === "confirm") {
      this.#ask(`tool/${spec.id}/${reply.callId}`, (signal) => this.#confirm(spec, reply, signal));
    }
    return [];
  }

  async showOutcome(view: RunView): Promise<number> {
    this.#options.onOutcome(view);
    return 0;
  }

  /** Withdraws all open requests after the run was interrupted. */
  withdrawAll(): void {
    for (const name of [...this.#open.keys()]) this.#withdraw(name);
  }

  #ask(name: string, ask: (signal: AbortSignal) => Promise<void>): void {
    if (this.#open.has(name)) return;
    const request = new AbortController();
    this.#open.set(name, request);
    void ask(request.signal)
      .catch((error) => this.#options.onError(error))
      .finally(() => {
        if (this.#open.get(name) === request) this.#open.delete(name);
      });
  }

  #withdraw(name: string): void {
    this.#open.get(name)?.abort();
    this.#open.delete(name);
  }

  async #askApproval(approval: Approval, signal: AbortSignal): Promise<void> {
    const { approvals, reporter, decide, ui } = this.#options;
    const { id: approvalId } = approval;
    const request = requestOf(approval);
    const cached = approvals.mode === "interactive" && approvals.isSessionApproved(request);
    if (!cached) reporter.approvalRequested(approval);
    const decision = await this.#request(request, signal);
    if (signal.aborted) return;

    reporter.approvalDecided(approval, decision, { cached });
    const { approved, note, remember, modifiedArgs: changedArgs } = decision;
    await decide({
      approvalId,
      decision: approved === true ? "approved" : "denied",
      by: person,
      ...(note !== undefined && { note }),
      ...(remember && { remember }),
      ...(changedArgs !== undefined && {
        changed: {
          args: changedArgs,
          digest: approvalDigest({ ...approval, preview: approval.preview, args: changedArgs, argsChanged: true }),
        },
      }),
      now: Date.now(),
    });
    if (!cached && approvals.isSessionApproved(request)) {
      this.sessionApprovals.set(approvalId, approval);
      ui?.showStatus("info", `Identical calls now run without asking. /revoke ${approvalId} revokes this approval.`);
    }
  }

  async #request(request: ApprovalRequest, signal: AbortSignal): Promise<z.infer<typeof ProgramDecision>> {
    try {
      return ProgramDecision.parse(await this.#options.approvals.requestApproval(request, { signal }));
    } catch (error) {
      return { approved: false, note: `The approval could not be requested: ${messageOf(error)}` };
    }
  }

  async #askQuestion(question: Question, signal: AbortSignal): Promise<void> {
    const { ui, reporter, deliver } = this.#options;
    const { runId, callId } = question;
    reporter.questionAsked(runId, callId);
    const event = await answerTo(question, { ui, signal });
    if (signal.aborted) return;
    reporter.received(runId, event);
    await deliver(runId, event);
  }

  async #confirm(
    { id: runId, workerPath }: RunView["spec"],
    { callId, tool, args, preview, word }: Extract<ToolReply, { kind: "confirm" }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { reporter, invoke } = this.#options;
    const { approved, note, modifiedArgs } = await this.#request(
      {
        toolName: tool,
        toolArgs: asRecord(args),
        description: `You want to call ${tool}.`,
        delegationPath: workerPath.split(" -> "),
        ...describedBy(preview),
        blocks: requestBlocks({ args, preview }),
        isShownWhole: isShownWhole(preview),
        effect: word,
      },
      signal,
    );
    if (approved === true) return invoke(runId, { callId, tool, args: modifiedArgs ?? args, agreed: word });
    const result = failedResult(`${tool} was denied${note ? `: ${note}` : "."}`, { code: "DENIED" });
    reporter.received(runId, { type: "tool.invoked", callId, tool, by: person, args, result });
  }
}

function describedBy(preview: Preview | undefined): { preview?: string } {
  const text = previewText(preview);
  return text === undefined ? {} : { preview: text };
}

export function requestOf({ workerPath, callId, tool, args, reason, preview }: Approval): ApprovalRequest {
  const effect = canonicalJson({ workerPath, preview: boundPart(preview) });
  return {
    toolName: tool,
    toolArgs: asRecord(args),
    description: reason,
    delegationPath: workerPath.split(" -> "),
    stepId: callId,
    ...describedBy(preview),
    blocks: requestBlocks({ args, preview }),
    isShownWhole: isShownWhole(preview),
    effect: createHash("sha256").update(effect).digest("hex"),
  };
}

async function answerTo(
  { callId, step, text }: Question,
  { ui, signal }: { ui: RuntimeUI | undefined; signal: AbortSignal },
): Promise<RunEvent> {
  const tool = "ask_user";
  if (!ui) {
    const result = failedResult("This program has no user interface, so nobody can answer.", {
      code: "UNAVAILABLE",
      suggestion: "Decide yourself, and say in your answer what you assumed.",
    });
    return { type: "tool.finished", callId, tool, result };
  }
  try {
    const answer = await ui.getUserInput(`${text}\n> `, { signal, timeoutMs: maxTimerMs });
    return { type: "question.answered", callId, step, text: answer, by: person };
  } catch (error) {
    return { type: "tool.finished", callId, tool, result: resultOfError(error) };
  }
}

/** Requests approvals on the bus: `approvalRequired`, with tool, arguments and preview in its details. */
export function approveOnBus(ui: RuntimeUI, signal: () => AbortSignal): ApprovalCallback {
  return async ({ toolName, toolArgs, description, delegationPath = [], preview, blocks, isShownWhole }) => {
    const answer = await ui.requestApproval(
      "tool_call",
      description,
      { toolName, toolArgs, ...(preview !== undefined && { preview }), ...(blocks && { blocks, isShownWhole }) },
      "medium",
      delegationPath.map((name, depth) => ({ id: name, depth, task: name })),
      { signal: signal(), timeoutMs: maxTimerMs },
    );
    if (answer.approved === false)
      return { approved: false, ...(answer.reason !== undefined && { note: answer.reason }) };
    const { approved, modifiedArgs } = answer;
    return {
      approved: true,
      remember: approved === true ? "none" : "session",
      ...(modifiedArgs !== undefined && { modifiedArgs }),
    };
  };
}
