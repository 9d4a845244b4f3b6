import { postComment } from "#bot/github/post-comment.ts";
import { isAsPosted, isOnlyTicked, postedComments } from "#bot/render/posted-request.ts";
import { UserError } from "#domain/errors.ts";
import { canWrite } from "#domain/github.ts";
import { type DeliveryContext, defineHandler, ignoreThread, queueOf, threadOf } from "./handler.ts";
import { isHuman } from "./incoming-comment.ts";
import { EditedCommentPayload } from "./payloads.ts";

/**
 * Somebody edited a comment of the app that asks for an approval. An edit that only ticks the box of a pending request
 * approves it. After any other edit the request is posted in a new comment, so that answers written before do not count.
 */
export const requestEdited = defineHandler(EditedCommentPayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) => {
    const { comment, sender, changes } = payload;
    if (comment.performed_via_github_app?.id !== scope.appId) return "it is not a comment of this app";
    if (!sender || sender.id === comment.user?.id) return "the app edited it itself";
    if (changes?.body === undefined) return "its text is unchanged";
    return ignoreThread(payload, comment.updated_at, scope);
  },
  handle: async (payload, context) => {
    const { comment, sender, changes } = payload;
    const [before, after] = [changes?.body?.from ?? "", comment.body ?? ""];
    const approvalId = requestedIn(before) ?? requestedIn(after);
    if (!approvalId || !sender) return;

    const thread = threadOf(payload, payload.issue.number);
    const runs = context.runs();
    const key = `edit ${comment.id} ${comment.updated_at?.toISOString() ?? context.deliveryId}`;
    const isTick = await ticksBox({ approvalId, thread, before, after }, context);
    if (isTick && isHuman(sender)) {
      const github = context.openGitHub(thread);
      try {
        if (!canWrite(await github.getPermission(sender.login, sender.id))) {
          throw new UserError(`${sender.login}, you need write access to approve. Nothing was approved.`);
        }
        const person = { by: sender.login, byId: sender.id, deliveryId: key };
        await runs.decideApprovals(thread, { ...person, target: approvalId, approve: true });
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        const [name, body] = [`reply/${key}`, context.sanitize(error.message)];
        await postComment(github, { thread: thread.thread, name, body });
      }
    }
    await runs.repostRequest(thread, { approvalId, deliveryId: `${key} restored`, isAltered: !isTick });
  },
});

/** Returns the id of the approval that a comment of the app asks for. */
function requestedIn(body: string): string | undefined {
  return /<!-- golem-forge:approval%2F([a-z0-9]+)(?:%2F\d+)? -->\s*$/.exec(body)?.[1];
}

/** True if the comment was exactly the pending request as the app posts it, and nothing but its box was ticked. */
async function ticksBox(
  edit: { approvalId: string; thread: ReturnType<typeof threadOf>; before: string; after: string },
  { runs, linksTo, redact, sanitize }: DeliveryContext,
): Promise<boolean> {
  const approval = (await runs().pendingApprovals(edit.thread)).find(({ id }) => id === edit.approvalId);
  if (!approval?.hasCheckbox) return false;
  const view = await runs().view(approval.rootId);
  const page = view && (await linksTo(view)).page;
  const posted = postedComments(approval, { redact, sanitize, page }).at(-1);
  return posted !== undefined && isAsPosted(posted, edit.before) && isOnlyTicked(posted, approval.id, edit.after);
}
