import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import { readView } from "#runtime/views/read-view.ts";
import type { EffectServices } from "./effect-services.ts";

/** Shows what became of the requests that nobody answered before the run was stopped or ended. */
export function closeApprovals({ store, frontEnd }: EffectServices): EffectHandler {
  return {
    maxAttempts: 12,
    async perform(effect, { spec }) {
      const approvals = await store.approvalsOf(spec.rootId);
      const withdrawn = approvals.filter(({ runId, status }) => runId === spec.id && status === "withdrawn");
      for (const approval of withdrawn) {
        const name = `approval/${approval.id}`;
        const post = await store.findPost(name);
        const view = await readView(store, spec.rootId);
        // What was not posted yet will be posted as what it is by then.
        if (!post || !view) continue;
        const options = { name, repeated: effect.attempts > 1, commentId: post.commentId };
        await frontEnd.showApproval(view, approval, options);
      }
      return {};
    },
    onFailure: async () => ({}),
  };
}
