import type { z } from "zod";
import { postComment } from "#bot/github/post-comment.ts";
import { isOnlyTicked } from "#bot/github/posted-comment.ts";
import { UserError } from "#domain/errors.ts";
import { actionsLogin, canWrite } from "#domain/github.ts";
import type { ThreadRef } from "#runtime/runs.ts";
import { type DeliveryContext, defineHandler, ignoreThread, queueOf, threadOf } from "./handler.ts";
import { isHuman } from "./incoming-comment.ts";
import { EditedCommentPayload, type EventUser } from "./payloads.ts";

/**
 * Somebody edited a comment of the app that asks for an approval. An edit that only ticks the box of a pending request
 * approves it. After any other edit the request is posted in a new comment, so that answers written before do not count.
 */
export const requestEdited = defineHandler(EditedCommentPayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) => {
    const { comment, sender, changes } = payload;
    const isOwn =
      scope.appId === undefined
        ? comment.user?.login === actionsLogin
        : comment.performed_via_github_app?.id === scope.appId;
    if (!isOwn) return "it is not a comment of this app";
    if (!sender || sender.id === comment.user?.id) return "this app edited it itself";
    if (changes?.body === undefined) return "its text is unchanged";
    return ignoreThread(payload, comment.updated_at, scope);
  },
  handle: async (payload, context) => {
    const edit = await readEdit(payload, context);
    if (!edit) return;
    const { approvalId, sender, thread, key, isTick } = edit;
    const runs = context.runs();
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
        await reply(error.message, edit, context);
      }
    }
    await restore(edit, context);
  },
  report: async (payload, context, problem) => {
    if (problem.kind === "waiting") return;
    const edit = await readEdit(payload, context);
    if (!edit) return;
    await restore(edit, context);
    const reason = problem.kind === "outage" ? "GitHub did not respond for a day" : "Something failed on our side";
    if (edit.isTick) await reply(`${reason}, so nothing was approved. Tick the box again.`, edit, context);
  },
});

interface Edit {
  approvalId: string;
  sender: EventUser;
  thread: ThreadRef;
  key: string;
  /** It only ticked the box of a pending request. */
  isTick: boolean;
}

/** Returns undefined for the edit of a comment that is no request, or whose request is in another comment by now. */
async function readEdit(
  payload: z.infer<typeof EditedCommentPayload>,
  context: DeliveryContext,
): Promise<Edit | undefined> {
  const { comment, sender, changes } = payload;
  const [before, after] = [changes?.body?.from ?? "", comment.body ?? ""];
  const approvalId = requestedIn(before) ?? requestedIn(after);
  if (!approvalId || !sender) return undefined;

  const thread = threadOf(payload, payload.issue.number);
  const runs = context.runs();
  const key = `edit ${comment.id} ${comment.updated_at?.toISOString() ?? context.deliveryId}`;
  const approval = (await runs.pendingApprovals(thread)).find(({ id }) => id === approvalId);
  const shown = (await runs.findRequest(approvalId))?.shown?.comments;
  // In place of a comment that was edited earlier, another one was posted.
  if (approval && shown && !shown.some(({ id }) => id === comment.id)) return undefined;
  const isTick = approval?.hasCheckbox === true && isOnlyTicked(shown?.at(-1), { approvalId, before, after });
  return { approvalId, sender, thread, key, isTick };
}

async function restore({ thread, approvalId, key, isTick }: Edit, { runs }: DeliveryContext): Promise<void> {
  await runs().repostRequest(thread, { approvalId, deliveryId: `${key} restored`, isAltered: !isTick });
}

async function reply(text: string, { thread, key }: Edit, { openGitHub, sanitize }: DeliveryContext): Promise<void> {
  await postComment(openGitHub(thread), { thread: thread.thread, name: `reply/${key}`, body: sanitize(text) });
}

/** Returns the id of the approval that a comment of the app asks for. */
function requestedIn(body: string): string | undefined {
  return /<!-- golem-forge:approval%2F([a-z0-9]+)(?:%2F\d+)? -->\s*$/.exec(body)?.[1];
}
