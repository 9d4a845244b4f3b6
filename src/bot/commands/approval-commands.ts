import { paragraphs } from "#bot/render/markdown.ts";
import { renderBeforeApproval } from "#bot/render/render-approval.ts";
import { formatCost, renderPending } from "#bot/render/render-status.ts";
import type { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { Runs } from "#runtime/runs.ts";
import { hasMarker } from "#text/comment-marker.ts";
import { redactDeep } from "#text/redact.ts";
import type { ThreadCommandContext } from "./command-context.ts";
import type { CommandOf } from "./thread-command.ts";

/** Approves a request, or raises the cost limit of the run that has used it up. */
export async function approve(
  { target, remember, changedArgs, budget }: CommandOf<"approve">,
  context: ThreadCommandContext,
): Promise<string | undefined> {
  const { runs, thread, person, comment } = context;
  if (budget !== undefined) {
    const limit = await runs.raiseCostLimit(thread, { ...person, amount: budget });
    return limit === undefined
      ? "The cost limit was raised."
      : `The cost limit is now ${formatCost(limit)}. The run continues.`;
  }
  await assertFullyShown(target, context);
  const options = {
    remember,
    commentId: comment.commentId,
    ...(changedArgs && { changedArgs }),
  };
  return decide(context, { target, approve: true, ...options });
}

export async function deny({ target, reason }: CommandOf<"deny">, context: ThreadCommandContext): Promise<undefined> {
  const [, first = "", rest = ""] = /^(\S+)\s*([\s\S]*)$/.exec(reason) ?? [];
  const id = first.toLowerCase().replace(/^#/, "");
  const pending = await context.runs.pendingApprovals(context.thread);
  const isId = target === undefined && pending.some((approval) => approval.id === id);
  const note = withoutBecause(isId ? rest : reason);
  return decide(context, { target: isId ? id : target, approve: false, ...(note && { note }) });
}

export async function revoke(
  { target, reason }: CommandOf<"revoke">,
  { runs, thread, person }: ThreadCommandContext,
): Promise<undefined> {
  const note = withoutBecause(reason);
  await runs.revokeApproval(thread, { ...person, target, ...(note && { note }) });
}

/** The requests suggest "because …", which the worker's prompt says itself. */
function withoutBecause(reason: string): string {
  return reason.replace(/^because[\s,:]+/i, "");
}

/** Refuses to approve a request that spans several comments while one of them is missing. */
async function assertFullyShown(
  target: string | undefined,
  { runs, github, redact, thread }: ThreadCommandContext,
): Promise<void> {
  const isMeant = ({ id }: Approval) => target === undefined || target === "all" || target.toLowerCase() === id;
  const pending = (await runs.pendingApprovals(thread)).filter(isMeant);
  const long = pending.flatMap(({ id, ...approval }) => {
    const parts = renderBeforeApproval(redactDeep({ id, ...approval }, redact)).length;
    return parts === 0 ? [] : [{ id, parts }];
  });
  if (long.length === 0) return;

  const own = (await github.listComments(thread.thread)).filter((comment) => comment.own);
  for (const { id, parts } of long) {
    const names = [...Array(parts).keys()].map((index) => `approval/${id}/${index + 1}`);
    const isPosted = (name: string) => own.some(({ body }) => hasMarker(body, name));
    if ([...names, `approval/${id}`].every(isPosted)) continue;
    throw new UserError(
      `${id} spans ${parts + 1} comments, and not all of them are in this thread, so it cannot be approved. If they are still being posted, comment again once they are here. If one was deleted, deny the request: the worker can ask again.`,
    );
  }
}

/** Answers a decision that matches several requests with the list of those pending. */
async function decide(
  { runs, thread, person }: ThreadCommandContext,
  decision: Omit<Parameters<Runs["decideApprovals"]>[1], keyof ThreadCommandContext["person"]>,
): Promise<undefined> {
  try {
    await runs.decideApprovals(thread, { ...person, ...decision });
  } catch (error) {
    if (!(error instanceof UserError) || decision.target === "all") throw error;
    const pending = renderPending(await runs.pendingApprovals(thread));
    throw new UserError(paragraphs(error.message, pending), { cause: error });
  }
}
