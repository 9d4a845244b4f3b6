import { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import { Preview } from "#domain/preview.ts";
import { ToolResult } from "#domain/result.ts";
import type { RunView } from "#domain/run.ts";
import { ManualToolInfo } from "#ui/manual-tool.ts";

/** A comment as GitHub has stored it. */
const PostedComment = z.object({
  id: z.number(),
  /** SHA-256 of its text. */
  digest: z.string(),
  /** The time of its last edit, by GitHub's clock. */
  updatedAt: z.number(),
});
export type PostedComment = z.infer<typeof PostedComment>;

/** The comments that ask people for something, as they were posted. Shows whether somebody has edited one. */
export const ShownRequest = z.object({
  /** The request itself comes last, after the parts above it. */
  comments: z.array(PostedComment),
  /** The revision of the approval that is shown. */
  revision: z.number(),
});
export type ShownRequest = z.infer<typeof ShownRequest>;

export interface PostOptions {
  /** Identifies the post. On GitHub it is a hidden marker in the comment, which helps to find a lost post. */
  name: string;
  /** The comment of an earlier post under this name, if known. */
  commentId?: number | undefined;
  /** The comments of an earlier post of this request, if known. */
  shown?: readonly PostedComment[] | undefined;
  /** The issue or pull request to post in. Default: that of the run's conversation. */
  thread?: number | undefined;
  /** True if posting was not attempted before, so that no earlier post can exist. */
  isFirstAttempt?: boolean | undefined;
  /** A comment of an earlier post under this name that somebody edited. It is marked as such, and a new one is posted. */
  replaces?: number | undefined;
}

/** Options of a status, which may be out of date by the time it can be posted. */
export interface StatusOptions extends PostOptions {
  /** Reads the current view. Default: the given one. */
  latest?: () => Promise<RunView>;
}

export interface Question {
  /** The run that asks: the root, or a child. */
  runId: string;
  callId: string;
  /** The number of the model's answer that asks. */
  step: number;
  text: string;
  /** The worker that asks, as a path from the root. */
  workerPath: string;
  /** True if an earlier question of the thread was open when this one was posted: a comment that quotes none answers the oldest. */
  isPreceded?: boolean;
  /** Undefined while the question is open. */
  end?: { kind: "answered"; by: string; text: string; at: number } | { kind: "withdrawn" };
}

/**
 * Shows runs to people. Each method posts or edits one comment. It resolves to the comment's id or, if further comments with
 * the first parts of a long text may precede it, to all of them. Posting under a known name edits that comment. The view is
 * always that of the root, whose thread also shows its children.
 */
export interface FrontEnd {
  /** Returns false for a call that is too long to be shown completely. Such a call is refused. */
  canShow(call: Pick<Approval, "args" | "preview">): boolean;
  /** Not implemented by front ends that follow a run by its events. */
  showStatus?(view: RunView, options: StatusOptions): Promise<number>;
  /** Shows the request or, when it is no longer pending, the decision. */
  showApproval(view: RunView, approval: Approval, options: PostOptions): Promise<PostedComment[]>;
  /** Shows the question, with its end if it has one. */
  askQuestion(view: RunView, question: Question, options: PostOptions): Promise<number>;
  /** Replies to a person's call of a tool. */
  showToolReply(view: RunView, reply: ToolReply, options: PostOptions): Promise<PostedComment[]>;
  /** Returns false if one of these comments was edited or deleted. Not implemented by front ends that post none. */
  isUnchanged?(view: RunView, comments: readonly PostedComment[]): Promise<boolean>;
  /** Posts an answer of a run that stays idle. Not implemented by front ends that follow a run by its events. */
  showAnswer?(view: RunView, text: string, options: PostOptions): Promise<number>;
  /** Posts that the run has used up its cost limit. Not implemented by front ends whose runs end there. */
  askForBudget?(view: RunView, options: PostOptions): Promise<number>;
  showOutcome(view: RunView, options: PostOptions): Promise<number>;
}

/** The reply to a person's call of a tool. */
export const ToolReply = z.discriminatedUnion("kind", [
  /** The call is accepted, and runs when the worker's current work has finished. */
  z.object({ kind: z.literal("queued"), by: z.string(), behind: z.enum(["model", "tool", "step"]) }),
  z.object({
    kind: z.literal("result"),
    by: z.string(),
    tool: z.string(),
    args: z.unknown(),
    result: ToolResult,
  }),
  /** Nothing has run. `command` confirms exactly the call shown here. */
  z.object({
    kind: z.literal("confirm"),
    callId: z.string(),
    tool: z.string(),
    args: z.unknown(),
    preview: Preview.optional(),
    command: z.string(),
    /** A word that confirms exactly this call. */
    word: z.string(),
    /** True if the word was given, but the comment that shows the call has been edited or deleted. */
    isAltered: z.boolean().optional(),
  }),
  z.object({ kind: z.literal("form"), tool: ManualToolInfo }),
  z.object({ kind: z.literal("list"), tools: z.array(ManualToolInfo) }),
  /** All changes of the run, as a unified diff. */
  z.object({ kind: z.literal("changes"), by: z.string(), diff: z.string() }),
  /** Nothing has run. The message says why and what to do. */
  z.object({ kind: z.literal("refused"), by: z.string(), message: z.string() }),
]);
export type ToolReply = z.infer<typeof ToolReply>;
