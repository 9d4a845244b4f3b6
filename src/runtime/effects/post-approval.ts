import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import { readView } from "#runtime/views/read-view.ts";
import type { EffectServices } from "./effect-services.ts";
import { stopUnpostable } from "./stop-unseen.ts";

/** Shows a request for approval in the root's thread, or, once it is decided, what became of it. */
export function postApproval({ store, frontEnd }: EffectServices): EffectHandler {
  return {
    maxAttempts: 12,
    async perform(effect, { spec }) {
      const { approvalId } = effect.input as { approvalId: string };
      const approval = await store.findApproval(approvalId);
      const view = await readView(store, spec.rootId);
      if (!approval || !view) return {};

      const name = `approval/${approvalId}`;
      const post = await store.findPost(name);
      const repeated = effect.attempts > 1 || post !== undefined;
      const commentId = await frontEnd.showApproval(view, approval, { name, repeated, commentId: post?.commentId });
      return { post: { name, commentId } };
    },
    onFailure: async (effect, { spec }, error) => {
      const { approvalId } = effect.input as { approvalId: string };
      // What nobody sees nobody answers; what became of it is in the ledger, seen or not.
      return (await store.findApproval(approvalId))?.status === "pending" ? stopUnpostable(spec, error) : {};
    },
  };
}
