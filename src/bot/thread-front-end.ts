import type { OpenGitHub } from "#github.ts";
import { redactAll } from "#redact-all.ts";
import type { RunView } from "#run.ts";
import type { FrontEnd, PostOptions } from "#runtime/front-end.ts";
import type { Runs } from "#runtime/runs.ts";
import { postComment } from "./post-comment.ts";
import { renderApproval } from "./render-approval.ts";
import { renderOutcome } from "./render-outcome.ts";
import { renderQuestion } from "./render-question.ts";
import { renderStatus } from "./render-status.ts";
import { renderToolReply } from "./render-tool-reply.ts";

export interface ThreadFrontEndOptions {
  openGitHub: OpenGitHub;
  runs: () => Pick<Runs, "pendingApprovals">;
  /** What is shown passes it before anything is cut. */
  redact: (text: string) => string;
  /** Every comment passes it before its marker is added. */
  sanitize: (text: string) => string;
}

/** Shows runs in the thread of their issue or pull request, one comment per name. */
export function createThreadFrontEnd({ openGitHub, runs, redact, sanitize }: ThreadFrontEndOptions): FrontEnd {
  const post = ({ spec: { origin } }: RunView, markdown: string, { name, commentId }: PostOptions) =>
    // Without a known comment it is looked for in any case: the first attempt may have been lost on its way back.
    postComment(openGitHub(origin), { thread: origin.thread, name, body: sanitize(markdown), commentId });

  const clean = <T>(value: T): T => redactAll(value, redact);

  return {
    showStatus: async (view, options) => {
      const pending = view.outcome ? [] : await runs().pendingApprovals(view.spec.origin);
      const own = pending.filter(({ rootId }) => rootId === view.spec.id);
      return post(view, renderStatus(clean(view), clean(own)), options);
    },
    showApproval: (view, approval, options) => post(view, renderApproval(clean(approval)), options),
    askQuestion: (view, question, options) => post(view, renderQuestion(clean(question)), options),
    showToolReply: (view, reply, options) => post(view, renderToolReply(clean(reply)), options),
    showOutcome: (view, options) => post(view, renderOutcome(clean(view)), options),
  };
}
