import { postComment } from "#bot/github/post-comment.ts";
import { renderApproval, renderBeforeApproval } from "#bot/render/render-approval.ts";
import { renderAnswer, renderBudget, renderOutcome } from "#bot/render/render-outcome.ts";
import { renderQuestion } from "#bot/render/render-question.ts";
import { layOutRequest, maxPrecedingComments } from "#bot/render/render-request.ts";
import { type RunLinks, renderStatus } from "#bot/render/render-status.ts";
import { renderBeforeToolReply, renderToolReply } from "#bot/render/render-tool-reply.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { RunView } from "#domain/run.ts";
import type { FrontEnd, PostOptions } from "#runtime/front-end.ts";
import type { Runs } from "#runtime/runs.ts";
import { redactDeep } from "#text/redact.ts";

export interface ThreadFrontEndOptions {
  openGitHub: OpenGitHub;
  runs: () => Pick<Runs, "pendingApprovals">;
  /** What is shown passes it before anything is cut. */
  redact: (text: string) => string;
  /** Every comment passes it before its marker is added. */
  sanitize: (text: string) => string;
  linksTo: (view: RunView) => Promise<RunLinks>;
}

/** Shows runs in the thread of their issue or pull request, one comment per name. */
export function createThreadFrontEnd({
  openGitHub,
  runs,
  redact,
  sanitize,
  linksTo,
}: ThreadFrontEndOptions): Required<FrontEnd> {
  /** Posts where the conversation is: in the issue, or in the pull request that the run opened. */
  const say = (view: RunView, markdown: string, options: PostOptions) =>
    post(view, markdown, { ...options, thread: options.thread ?? view.replyThread });

  const post = ({ spec: { origin } }: RunView, markdown: string, { thread = origin.thread, ...options }: PostOptions) =>
    postComment(openGitHub(origin), { ...options, thread, body: sanitize(markdown) });

  /** What does not fit a request stands before it: whoever sees the request has been shown all of it. */
  const postAbove = async (view: RunView, comments: readonly string[], { name, ...options }: PostOptions) => {
    const { thread, commentId } = options;
    // A request that was posted before has its parts in the thread already.
    const isFirstAttempt = options.isFirstAttempt && commentId === undefined;
    for (const [index, markdown] of comments.entries()) {
      await say(view, markdown, { name: `${name}/${index + 1}`, thread, isFirstAttempt });
    }
  };

  const clean = <T>(value: T): T => redactDeep(value, redact);

  return {
    showStatus: (shown, { latest = async () => shown, ...options }) => {
      const { origin } = shown.spec;
      const body = async () => {
        const view = await latest();
        const pending = view.outcome ? [] : await runs().pendingApprovals(origin);
        const own = pending.filter(({ rootId }) => rootId === view.spec.id);
        return sanitize(renderStatus(clean(view), clean(own), await linksTo(view)));
      };
      return postComment(openGitHub(origin), { ...options, thread: origin.thread, body });
    },
    canShow: (asked) => layOutRequest(clean(asked)).precedingComments.length <= maxPrecedingComments,
    showApproval: async (view, approval, options) => {
      const shown = clean(approval);
      if (shown.status === "pending") await postAbove(view, renderBeforeApproval(shown), options);
      const commentId = await say(view, renderApproval(shown, (await linksTo(view)).page), options);
      if (shown.status !== "pending") await postAbove(view, renderBeforeApproval(shown), { ...options, commentId });
      return commentId;
    },
    askQuestion: (view, question, options) => say(view, renderQuestion(clean(question)), options),
    showToolReply: async (view, reply, options) => {
      const shown = clean(reply);
      await postAbove(view, renderBeforeToolReply(shown), options);
      return post(view, renderToolReply(shown), options);
    },
    showAnswer: (view, text, options) => say(view, renderAnswer(clean(view), redact(text)), options),
    askForBudget: (view, options) => say(view, renderBudget(clean(view)), options),
    showOutcome: async (view, options) => say(view, renderOutcome(clean(view), await linksTo(view)), options),
  };
}
