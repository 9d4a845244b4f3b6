import type { IncomingComment } from "#bot/deliveries/incoming-comment.ts";
import type { CommentLinks } from "#bot/render/render-status.ts";
import type { GitHub } from "#domain/github.ts";
import type { RunView } from "#domain/run.ts";
import type { Runs, ThreadRef } from "#runtime/runs.ts";

/** The services of the handlers of commands in threads. */
export interface ThreadCommandContext {
  github: GitHub;
  runs: Runs;
  comment: IncomingComment;
  thread: ThreadRef;
  /** The author of the command, with its idempotency key. */
  person: { by: string; byId: number | undefined; deliveryId: string };
  redact: (text: string) => string;
  linksTo: (view: RunView) => Promise<CommentLinks>;
}
