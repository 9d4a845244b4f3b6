import { postComment } from "#bot/github/post-comment.ts";
import { checkboxOf, renderApproval } from "#bot/render/render-approval.ts";
import type { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import { canWrite } from "#domain/github.ts";
import { markerOf } from "#text/comment-marker.ts";
import { redactDeep } from "#text/redact.ts";
import { type DeliveryContext, defineHandler } from "./handler.ts";
import { isHuman } from "./incoming-comment.ts";
import { EditedCommentPayload } from "./payloads.ts";
import { ignoreThread, queueOf, threadOf } from "./thread.ts";

/**
 * A person edited a comment of the app. An edit that only ticks the box of a pending request, as it was posted, approves
 * it; whatever the edit was, the request is then posted again as it should be.
 */
export const commentEdited = defineHandler(EditedCommentPayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) => {
    const { comment, sender, changes } = payload;
    if (comment.performed_via_github_app?.id !== scope.appId) return "it is not a comment of this app";
    if (!sender || !isHuman(sender)) return "no person edited it";
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
    const approval = (await runs.pendingApprovals(thread)).find(({ id }) => id === approvalId);
    const github = context.openGitHub(thread);
    try {
      if (approval && (await isTicked(approval, { before, after }, context))) {
        if (!canWrite(await github.getPermission(sender.login, sender.id))) {
          throw new UserError(`${sender.login}, you need write access to approve. Nothing was approved.`);
        }
        const person = { by: sender.login, byId: sender.id, deliveryId: key };
        await runs.decideApprovals(thread, { ...person, target: approvalId, approve: true });
      }
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      await postComment(github, {
        thread: thread.thread,
        name: `reply/${key}`,
        body: context.sanitize(error.message),
      });
    }
    await runs.repostRequest(thread, { approvalId, deliveryId: `${key} restored` });
  },
});

/** Returns the id of the approval that a comment of the app asks for. */
function requestedIn(body: string): string | undefined {
  return /<!-- golem-forge:approval%2F([a-z0-9]+)(?:%2F\d+)? -->\s*$/.exec(body)?.[1];
}

/** True if the comment was exactly the request as the app posts it, and nothing but its box was ticked. */
async function isTicked(
  approval: Approval,
  { before, after }: { before: string; after: string },
  { runs, linksTo, redact, sanitize }: DeliveryContext,
): Promise<boolean> {
  if (!approval.hasCheckbox) return false;
  const view = await runs().view(approval.rootId);
  const page = view && (await linksTo(view)).page;
  const text = sanitize(renderApproval(redactDeep(approval, redact), page));
  const posted = `${text.trimEnd()}\n\n${markerOf(`approval/${approval.id}`)}`;
  const box = checkboxOf(approval.id);
  const at = posted.lastIndexOf(box);
  if (at < 0 || normalize(before) !== normalize(posted)) return false;
  const ticked = posted.slice(0, at) + box.replace("[ ]", "[x]") + posted.slice(at + box.length);
  return normalize(after) === normalize(ticked);
}

/** A browser sends other line ends than the app, and may leave out spaces at the end. */
function normalize(body: string): string {
  return body.replace(/\r\n?/g, "\n").replace("- [X] ", "- [x] ").trimEnd();
}
