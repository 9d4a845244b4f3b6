import type { Approval } from "#domain/approval.ts";
import type { RunView } from "#domain/run.ts";
import type { ToolReply } from "#runtime/calls/tool-reply.ts";

/** How a post finds itself again: `repeated` says an attempt may have gone through, so look for the name before posting. */
export interface PostOptions {
  /** Names the post for ever; goes into the comment as a hidden marker. */
  name: string;
  repeated: boolean;
  /** The comment that already stands, when it is known. */
  commentId?: number;
}

export interface Question {
  /** The run that asks: the root, or a child. */
  runId: string;
  callId: string;
  text: string;
  /** The worker that asks, as a path from the root. */
  workerPath: string;
  /** What became of it; undefined while it is open. */
  end?: { kind: "answered"; by: string; text: string; at: number } | { kind: "withdrawn" };
}

/**
 * What shows runs to people. Every `show` and `ask` posts or edits one comment and resolves to its id; posting twice under one
 * name edits the first. The view is always the root's: children speak in its thread.
 */
export interface FrontEnd {
  /** False for what is too long to be shown to a person whole. It is refused, not asked. */
  canShow(asked: Pick<Approval, "args" | "preview">): boolean;
  /** Left out by front ends that follow a run by its events. */
  showStatus?(view: RunView, options: PostOptions): Promise<number>;
  /** Shows the request, or, when it is no longer pending, what became of it. */
  showApproval(view: RunView, approval: Approval, options: PostOptions): Promise<number>;
  /** Asks, or, when the question is over, shows what became of it. */
  askQuestion(view: RunView, question: Question, options: PostOptions): Promise<number>;
  /** Answers a person's command for a tool. */
  showToolReply(view: RunView, reply: ToolReply, options: PostOptions): Promise<number>;
  showOutcome(view: RunView, options: PostOptions): Promise<number>;
}
