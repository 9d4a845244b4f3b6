import type { RepositorySettings } from "#config/repository-settings.ts";
import { type Approval, approvalDigest } from "#domain/approval.ts";
import type { ModelCall, Verdict } from "#domain/events.ts";
import { type Preview, textOf } from "#domain/preview.ts";
import { type RunSpec, shortId } from "#domain/run.ts";
import { describeRequirement, requirementsOf, resolveAccounts } from "#runtime/approval-rules.ts";
import { lastAnswer, readBaseCommit } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import type { Store } from "#runtime/store/store.ts";
import type { CallContext, CallReview } from "#toolsets/review-call.ts";
import { failedResult } from "#toolsets/tool-result.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { callContext, type EffectHandler, type EffectServices } from "./effect-handler.ts";

type ReviewServices = Pick<EffectServices, "store" | "frontEnd" | "now" | "approvalMs">;

/** Checks every call of the last answer against policy, and creates the approvals people have to give. */
export function reviewCalls({
  store,
  frontEnd,
  now,
  approvalMs,
}: ReviewServices): EffectHandler<EffectOf<"calls.review">> {
  return {
    maxAttempts: 3,
    async perform({ runId }, run, signal) {
      const [log, toolbox] = await Promise.all([run.log(), run.tools(signal)]);
      const last = lastAnswer(log);
      if (!last) throw new Error(`Run ${runId} has no answer to review`);

      const { step } = last;
      // Read only if an approval is needed, which is rare.
      let settings: Promise<RepositorySettings> | undefined;
      const { verdicts, approvals } = await reviewAnswer({
        spec: run.spec,
        toolbox,
        calls: last.answer.calls,
        contextOf: ({ callId }) => callContext(run, { callId, step, signal }),
        remembered: await sessionApprovals(store, run.spec, now()),
        baseCommit: readBaseCommit(log)?.commit ?? "",
        canShow: frontEnd.canShow,
        open: async ({ callId }, shown) => {
          settings ??= readSettings(run.repository);
          const requirements = await requirementsOf(shown, await settings, run.repository);
          const { requestedBy } = run.spec.origin;
          const quorums = requirements.map((requirement) => ({
            who: describeRequirement({ ...requirement, required: 1 }, requestedBy),
            required: requirement.required,
            by: [],
          }));
          const accounts = await resolveAccounts(requirements, run.repository);
          return {
            id: await unusedId(store, `${runId}/${step}/${callId}`),
            approvers: requirements.map((requirement) => describeRequirement(requirement, requestedBy)).join("; "),
            quorums,
            ...(Object.keys(accounts).length > 0 && { accounts }),
            ...((await settings).approve_by_checkbox && { hasCheckbox: true }),
            requestedAt: now(),
            expiresAt: now() + approvalMs,
          };
        },
      });
      signal.throwIfAborted();
      return { events: [{ runId, event: { type: "calls.reviewed", verdicts } }], approvals };
    },
    async onFailure({ runId }, run, error) {
      const calls = lastAnswer(await run.log())?.answer.calls ?? [];
      const message = `This call could not be reviewed: ${error instanceof Error ? error.message : "unknown reason"}`;
      const result = {
        llmContent: message,
        value: { kind: "text" as const, content: message },
        error: { type: "system_error" as const, code: "UNAVAILABLE" as const, message },
      };
      const verdicts = calls.map(({ callId, tool }): Verdict => ({ kind: "refuse", callId, tool, result }));
      return { events: [{ runId, event: { type: "calls.reviewed", verdicts } }] };
    },
  };
}

/** Returns the approvals that cover more calls of this run. They do not count for its parent or its children. */
async function sessionApprovals(store: Store, { id, rootId }: RunSpec, now: number): Promise<Approval[]> {
  const approvals = await store.approvalsOf(rootId);
  return approvals.filter(
    ({ runId, remember, status, expiresAt }) =>
      runId === id && remember === "session" && (status === "approved" || status === "used") && now < expiresAt,
  );
}

/** Returns an approval id that is not in use. Four letters are usually enough. */
async function unusedId(store: Store, seed: string): Promise<string> {
  for (let length = 4; length < 16; length += 1) {
    const id = shortId(seed, length);
    if (!(await store.findApproval(id))) return id;
  }
  throw new Error("No short id is free");
}

interface ReviewOptions {
  spec: RunSpec;
  toolbox: Pick<Toolbox, "review" | "find">;
  calls: readonly ModelCall[];
  contextOf(call: ModelCall): CallContext;
  /** The approvals for the session. */
  remembered: readonly Approval[];
  baseCommit: string;
  /** Returns false for a call that is too long to be shown completely. */
  canShow: (call: { args: unknown; preview: Preview | undefined }) => boolean;
  /** Returns the id, the approvers and the times of a new approval. */
  open(
    call: ModelCall,
    shown: Pick<Approval, "tool" | "toolName" | "workerPath" | "preview">,
  ): Promise<Pick<Approval, "id" | "approvers" | "quorums" | "accounts" | "hasCheckbox" | "requestedAt" | "expiresAt">>;
}

/** Checks every call of an answer against policy, in order. Returns a verdict for each and the approvals to request. */
async function reviewAnswer({
  spec,
  toolbox,
  calls,
  contextOf,
  remembered,
  baseCommit,
  canShow,
  open,
}: ReviewOptions): Promise<{ verdicts: Verdict[]; approvals: Approval[] }> {
  const verdicts: Verdict[] = [];
  const approvals: Approval[] = [];
  for (const call of calls) {
    const reviewed = await toolbox.review(call, contextOf(call), remembered);
    const review = reviewed.kind === "ask" && !canShow(reviewed) ? tooLong(reviewed) : reviewed;
    const { callId, tool } = call;
    switch (review.kind) {
      case "allow": {
        const { kind, answeredBy, approvalId } = review;
        verdicts.push({ kind, callId, tool, answeredBy, approvalId });
        break;
      }
      case "ask": {
        const approval = await ask(call, review);
        approvals.push(approval);
        verdicts.push({ kind: "ask", callId, tool, answeredBy: review.answeredBy, approvalId: approval.id });
        break;
      }
      case "refuse":
        verdicts.push({ kind: "refuse", callId, tool, result: review.result });
    }
  }
  return { verdicts, approvals };

  async function ask(call: ModelCall, review: Extract<CallReview, { kind: "ask" }>): Promise<Approval> {
    const { id: runId, rootId, workerPath, origin } = spec;
    const { callId, tool } = call;
    const { args, preview, reason } = review;
    const subject = { runId, workerPath, callId, tool, args, baseCommit, preview };
    const toolName = toolbox.find(tool)?.name ?? tool;
    return {
      ...subject,
      toolName,
      rootId,
      ...(origin.repositoryId !== undefined && { repositoryId: origin.repositoryId }),
      digest: approvalDigest(subject),
      reason,
      status: "pending",
      ...(await open(call, { tool, toolName, workerPath, preview })),
    };
  }
}

/** Refuses a call that cannot be shown completely, because people must not approve what they have not seen. */
function tooLong({ args, preview }: Extract<CallReview, { kind: "ask" }>): Extract<CallReview, { kind: "refuse" }> {
  const texts = [JSON.stringify(args) ?? "", ...(preview?.sections ?? []).map(textOf)];
  const characters = texts.reduce((sum, { length }) => sum + length, 0);
  const message = `A person has to approve this, and it is too long to show: ${characters.toLocaleString("en-US")} characters.`;
  return { kind: "refuse", result: failedResult(message, { code: "TOO_LARGE", suggestion }) };
}

const suggestion = "Split it into several calls. A push contains only the files that git_stage names.";
