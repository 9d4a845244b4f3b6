import { setImmediate as nextTurn } from "node:timers/promises";
import { postComment, updateComment } from "#bot/github/post-comment.ts";
import { areUnchanged, describePosted } from "#bot/github/posted-comment.ts";
import { undefinedIfMissing } from "#bot/github/refusals.ts";
import { blockquote, code, formatUtc, inline, paragraphs } from "#bot/render/markdown.ts";
import { renderAltered, renderApproval, renderBeforeApproval } from "#bot/render/render-approval.ts";
import { isReadable } from "#bot/render/render-request.ts";
import { type CommentLinks, formatCost, renderLinks, renderStatus } from "#bot/render/render-status.ts";
import { renderBeforeToolReply, renderToolReply } from "#bot/render/render-tool-reply.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { RunView } from "#domain/run.ts";
import type { FrontEnd, PostedComment, PostOptions, Question } from "#runtime/front-end.ts";
import type { Runs } from "#runtime/runs.ts";
import { markImitations } from "#text/comment-marker.ts";
import { redactDeep } from "#text/redact.ts";
import { closeMarkdown, truncateMarkdown, truncateText } from "#text/truncate.ts";
import { showHidden } from "#text/visible-text.ts";

export interface ThreadFrontEndOptions {
  openGitHub: OpenGitHub;
  runs: () => Pick<Runs, "pendingApprovals">;
  /** Applied to everything that is shown, before it is shortened. */
  redact: (text: string) => string;
  /** Applied to every comment before its marker is added. */
  sanitize: (text: string) => string;
  linksTo: (view: RunView) => Promise<CommentLinks>;
  /** The percentage of a run's cost limit from which its status warns. Default: 80. */
  costWarningPercent?: number;
}

/** Shows runs in the thread of their issue or pull request, one comment per name. */
export function createThreadFrontEnd({
  openGitHub,
  runs,
  redact,
  sanitize,
  linksTo,
  costWarningPercent,
}: ThreadFrontEndOptions): Required<FrontEnd> {
  /**
   * Posts in the thread of the conversation: the issue, or the pull request that the run opened. Once the issue was deleted or
   * transferred, it is always the pull request.
   */
  const postReply = async (view: RunView, markdown: string, options: PostOptions) => {
    const thread = options.thread ?? view.replyThread ?? view.spec.origin.thread;
    const posting = post(view, markdown, { ...options, thread });
    if (view.pullRequest === undefined || view.pullRequest === thread) return posting;
    const posted = await undefinedIfMissing(posting);
    return posted ?? post(view, markdown, { ...options, thread: view.pullRequest });
  };

  const post = (
    { spec: { origin }, pullRequest = origin.thread }: RunView,
    markdown: string,
    { thread = origin.thread, ...options }: PostOptions,
  ) => {
    const otherThreads = [origin.thread, pullRequest];
    return postComment(openGitHub(origin), { ...options, thread, otherThreads, body: sanitize(markdown) });
  };

  /** The parts that do not fit into a request are posted before it, so that people who see the request have been shown all of it. */
  const postAbove = async (view: RunView, markdown: readonly string[], { name, ...options }: PostOptions) => {
    const { thread, commentId, replaces, shown = [] } = options;
    // A request that was posted before has its parts in the thread already.
    const isFirstAttempt = options.isFirstAttempt && commentId === undefined && replaces === undefined;
    const posted: PostedComment[] = [];
    for (const [index, body] of markdown.entries()) {
      await nextTurn();
      const earlier = index < shown.length - 1 ? shown[index]?.id : undefined;
      const part = { name: `${name}/${index + 1}`, thread, isFirstAttempt, commentId: earlier };
      posted.push(describePosted(await postReply(view, body, part)));
    }
    return posted;
  };

  const clean = <T>(value: T): T => redactDeep(value, redact);

  return {
    showStatus: async (shown, { latest = async () => shown, ...options }) => {
      const { origin } = shown.spec;
      const body = async () => {
        const view = clean(await latest());
        const pending = view.outcome ? [] : await runs().pendingApprovals(origin);
        const own = pending.filter(({ rootId }) => rootId === view.spec.id);
        const status = renderStatus(view, clean(own), await linksTo(view), costWarningPercent);
        return sanitize(paragraphs(status, renderUnposted(view)));
      };
      return (await postComment(openGitHub(origin), { ...options, thread: origin.thread, body })).id;
    },
    canShow: (asked) => isReadable(clean(asked)),
    showApproval: async (view, approval, options) => {
      const shown = clean(approval);
      // Redacting and laying out a long request each take tens of milliseconds.
      await nextTurn();
      if (options.replaces !== undefined) {
        await updateComment(openGitHub(view.spec.origin), options.replaces, sanitize(renderAltered(shown)));
      }
      const parts = renderBeforeApproval(shown);
      const above = shown.status === "pending" ? await postAbove(view, parts, options) : [];
      const request = await postReply(view, renderApproval(shown, (await linksTo(view)).page), options);
      if (shown.status !== "pending") await postAbove(view, parts, { ...options, commentId: request.id });
      return [...above, describePosted(request)];
    },
    askQuestion: async (view, question, options) =>
      (await postReply(view, renderQuestion(clean(question)), options)).id,
    showToolReply: async (view, reply, options) => {
      const shown = clean(reply);
      const above = await postAbove(view, renderBeforeToolReply(shown), options);
      return [...above, describePosted(await post(view, renderToolReply(shown), options))];
    },
    isUnchanged: ({ spec }, comments) => areUnchanged(openGitHub(spec.origin), comments),
    showAnswer: async (view, text, options) =>
      (await postReply(view, renderAnswer(clean(view), redact(text)), options)).id,
    askForBudget: async (view, options) => (await postReply(view, renderBudget(clean(view)), options)).id,
    showOutcome: async (view, options) => {
      const links = await linksTo(view);
      return (await postReply(view, renderOutcome(clean(view), links), options)).id;
    },
  };
}

/** The characters shown of a request that no longer needs an answer. */
const maxSettledLength = 2_000;

/** Renders a worker's question, or its result once it was answered or withdrawn. */
export function renderQuestion({ workerPath, text: asked, isPreceded, end }: Question): string {
  const who = `**${inline(workerPath)}**`;
  const text = markImitations(asked);
  switch (end?.kind) {
    case undefined:
      return paragraphs(
        `### 💬 ${who} asks`,
        blockquote(text),
        `Anyone with write access can answer with a plain comment.${isPreceded ? " Until the earlier question of this thread is answered, quote this question in it." : ""} \`/stop\` stops the worker instead.`,
      );
    case "answered":
      return paragraphs(
        `### ✅ Answered by ${inline(end.by)}, ${formatUtc(end.at)}`,
        blockquote(end.text, maxSettledLength),
        `${who} had asked:`,
        blockquote(text, maxSettledLength),
      );
    case "withdrawn":
      return paragraphs(
        "### ⏹️ Withdrawn: the run was paused or has ended",
        `${who} had asked:`,
        blockquote(text, maxSettledLength),
      );
  }
}

export function renderOutcome(view: RunView, links: CommentLinks = {}): string {
  const worker = view.spec.worker.name;
  const name = `**${inline(worker)}**`;
  const again = `To try again, comment ${code(commandOf(view))}`;
  switch (view.outcome?.kind) {
    case "answered":
      // The answer comes last, so that Markdown it leaves open cannot affect our own text.
      return paragraphs(`### ✅ ${name}`, renderLinks(view, links), answerOf(view.outcome.text));
    case "failed":
      return paragraphs(
        `### ❌ ${name} failed`,
        blockquote(view.outcome.reason),
        `${again}, optionally adding what to do differently.`,
      );
    case "limited":
      return paragraphs(
        `### 🛑 ${name} reached its limit of ${inline(view.outcome.limit)}`,
        blockquote(view.outcome.reason),
        `${again}. You can raise the limits under \`limits:\` in its \`.worker\` file.`,
      );
    case "cancelled":
      return paragraphs(
        `### ⏹️ ${name} was cancelled by ${inline(view.outcome.by)}`,
        view.outcome.reason && blockquote(view.outcome.reason),
        `${again}.`,
      );
    case undefined:
      return paragraphs(`### ⚙️ ${name} is still working`);
  }
}

/** Renders an answer of a run that stays: a chat, or a run with an open pull request. */
function renderAnswer({ spec, pullRequest }: RunView, text: string): string {
  const sign = pullRequest === undefined ? "💬" : "✅";
  return paragraphs(`### ${sign} **${inline(spec.worker.name)}**`, answerOf(text));
}

/** Renders a result that could not be posted as a comment of its own, for the status. */
function renderUnposted({ unposted }: RunView): string | undefined {
  if (!unposted) return undefined;
  return paragraphs("⚠️ This result could not be posted in a comment of its own:", answerOf(unposted, 30_000));
}

/** Says that a run has used up its cost limit, and how it continues. */
function renderBudget({ spec: { worker }, cost = 0 }: RunView): string {
  return paragraphs(
    `### 💰 **${inline(worker.name)}** has used up its cost limit`,
    `It has cost ${formatCost(cost)} of ${formatCost(worker.limits.cost)} and is waiting. Its work is kept.`,
    "To raise the limit of this run and continue, comment `/approve +$2` with the amount you want to add. To end the run, comment `/cancel`.",
  );
}

/** Returns the command as it was given, without the text below its first line. */
function commandOf({ spec: { worker, task = "" } }: RunView): string {
  return truncateText(`/run ${worker.name} ${task.split("\n", 1)[0]}`.trim(), 300);
}

function answerOf(text: string, maxLength = 50_000): string {
  return (
    closeMarkdown(truncateMarkdown(markImitations(showHidden(truncateText(text, 200_000)).trim()), maxLength)) ||
    "Finished without a message."
  );
}
