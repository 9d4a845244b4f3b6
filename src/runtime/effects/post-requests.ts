import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Question } from "#runtime/front-end.ts";
import { questionName, questionOf } from "#runtime/read-log.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import { hasEarlierQuestion } from "#runtime/service/open-questions.ts";
import { readView } from "#runtime/views/read-view.ts";
import { type EffectHandler, type EffectServices, post, postRequest } from "./effect-handler.ts";

type PostServices = Pick<EffectServices, "store" | "frontEnd">;

/** Posts an approval request in the root's thread, or updates it with the decision. */
export function postApproval({ store, frontEnd }: PostServices): EffectHandler<EffectOf<"approval.post">> {
  return {
    maxAttempts: 12,
    async perform({ attempts, request: { approvalId, replaces } }, { spec }) {
      const approval = await store.findApproval(approvalId);
      const view = await readView(store, spec.rootId);
      if (!approval || !view) return {};
      const name = `approval/${approvalId}`;
      const isPending = approval.status === "pending";
      const { revision } = approval;
      const posted = await postRequest(
        store,
        { name, attempts, spec, revision, ...(isPending && { replaces }) },
        (options) => frontEnd.showApproval(view, approval, options),
      );
      return { ...posted, ...(isPending && { shownApproval: approvalId }) };
    },
    onFailure: async ({ request: { approvalId } }, { spec }, error) => {
      // A request that is not visible cannot be answered. A decision is in the ledger in any case.
      const approval = await store.findApproval(approvalId);
      return approval?.status === "pending" ? stopUnpostable(spec, error) : {};
    },
  };
}

/** Updates the requests of a run that were withdrawn when it was stopped or ended. */
export function closeApprovals({ store, frontEnd }: PostServices): EffectHandler<EffectOf<"approvals.close">> {
  return {
    maxAttempts: 12,
    async perform(_effect, { spec }) {
      const approvals = await store.approvalsOf(spec.rootId);
      for (const approval of approvals) {
        if (approval.runId !== spec.id || approval.status !== "withdrawn") continue;
        const name = `approval/${approval.id}`;
        const known = await store.findPost(name);
        const view = await readView(store, spec.rootId);
        // A request that is not posted yet will be posted as withdrawn.
        if (!known || !view) continue;
        const shown = known.shown?.comments;
        await frontEnd.showApproval(view, approval, { name, commentId: known.commentId, shown });
      }
      return {};
    },
    onFailure: async () => ({}),
  };
}

/** Posts the question of a worker in the root's thread, or updates it when it is answered or withdrawn. */
export function postQuestion({
  store,
  frontEnd,
}: PostServices): EffectHandler<EffectOf<"question.post" | "question.close">> {
  return {
    maxAttempts: 12,
    async perform({ attempts, request: { kind, callId, step: asked } }, run) {
      const { spec } = run;
      const { call, step, answer } = questionOf(await run.log(), callId, asked);
      const view = await readView(store, spec.rootId);
      if (!view) return {};

      const { id: runId, workerPath } = spec;
      const question: Question = { runId, callId, step, text: questionText(call.args), workerPath };
      if (answer) question.end = { kind: "answered", ...answer };
      else if (kind === "question.close") question.end = { kind: "withdrawn" };
      else question.isPreceded = await hasEarlierQuestion(store, spec, callId);
      return post(store, { name: questionName(spec.id, step, callId), attempts, spec }, (options) =>
        frontEnd.askQuestion(view, question, options),
      );
    },
    onFailure: async ({ request: { kind } }, { spec }, error) =>
      kind === "question.post" ? stopUnpostable(spec, error) : {},
  };
}

const QuestionArguments = z
  .object({ question: z.unknown().optional(), options: z.array(z.unknown()).catch([]) })
  .catch({ options: [] });

function questionText(args: unknown): string {
  const { question, options } = QuestionArguments.parse(args);
  const choices = options.map((option) => `- ${String(option)}`);
  return [String(question ?? "What should I do?"), ...choices].join("\n");
}

/** Stops the tree of a run whose request cannot be posted. After a resume, the request is made again. */
function stopUnpostable({ rootId, workerPath }: RunSpec, error: unknown): EffectResult {
  const cause = error instanceof UserError ? error.message : "GitHub did not accept it for a long time.";
  const reason = `The request of ${workerPath} could not be posted. ${cause}`;
  return { events: [{ runId: rootId, event: { type: "run.stop", by: "golem-forge", reason } }] };
}
