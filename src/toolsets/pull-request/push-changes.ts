import { createHash } from "node:crypto";
import { z } from "zod";
import { canonicalJson } from "#domain/approval.ts";
import { withTrailers } from "#domain/commit-trailers.ts";
import { ToolError } from "#domain/errors.ts";
import { changesIn, type FileChange, type Preview } from "#domain/preview.ts";
import type { ToolContext } from "#domain/tool.ts";
import { fileChange } from "#sandbox/preview-files.ts";
import { BranchMoved } from "#sandbox/push-changes.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";
import { proposedFiles } from "./outgoing-changes.ts";

/** The state of the run's own branch after a push, as recorded in the result of the call. */
export const Pushed = z.object({
  commit: z.string(),
  /** SHA-256 of all changes in the commit. */
  changes: z.string(),
});
export type Pushed = z.infer<typeof Pushed>;

const maxFiles = 100;
const maxBytes = 4_000_000;

export interface PushOptions {
  services: ToolServices;
  context: ToolContext;
  message: string;
}

/**
 * Commits the run's changes to its own branch. A retry of the call creates the same commit: the parent is the commit
 * that earlier calls pushed, not the current tip of the branch, and the time is derived from the run and the step.
 */
export async function pushChanges({ services, context, message }: PushOptions): Promise<Pushed> {
  const { sandbox, github, branch, spec } = services;
  const files = await changesToPush(services, context.approved);
  const changes = digestOf(files);
  const last = lastPushed(services.history());
  const history = services.history();
  const merges = mergesIn(history.slice(history.findLastIndex((call) => pushedBy(call) !== undefined) + 1));
  if (last?.changes === changes && merges.length === 0) return last;

  // A run on someone's pull request continues from the commit it started from.
  const previous = last?.commit ?? (spec.pullRequestBranch === undefined ? undefined : sandbox.base.commit);
  // What people pushed to the run's branch, if the run has merged it.
  const own = merges.findLast((merge) => merge.branch === branch)?.commit;
  const expectedTip = own ?? previous;
  const merged = merges.map((merge) => ({
    commit: merge.commit,
    since: merge.branch === branch ? previous : undefined,
  }));
  try {
    const { commit } = await sandbox.push({
      branch,
      changes: files,
      message: withRunTrailers(message, services, context),
      author: await authorOf(github),
      at: commitTime(spec, context),
      ...(expectedTip ? { expectedTip } : {}),
      ...(previous ? { merged } : {}),
      signal: context.abortSignal,
    });
    return { commit, changes };
  } catch (error) {
    if (!(error instanceof BranchMoved)) throw error;
    throw new ToolError(error.message, {
      code: "CONFLICT",
      suggestion: `Take in the new commits: call ${branch === sandbox.base.branch ? "git_pull" : `git_merge with the branch ${branch}`}, then call this tool again.`,
      cause: error,
    });
  }
}

/** Returns a commit message that names the run, who requested it and who approved the commit. */
export function withRunTrailers(
  message: string,
  { spec, sanitize }: Pick<ToolServices, "spec" | "sanitize">,
  { approval }: Pick<ToolContext, "approval">,
): string {
  const { requestedBy: login, requestedById: id } = spec.origin;
  return withTrailers(sanitize(message), { runId: spec.id, requestedBy: { login, id }, approval });
}

export async function authorOf(github: ToolServices["github"]): Promise<{ name: string; email: string }> {
  const login = await github.ownLogin();
  return { name: login, email: `${login}@users.noreply.github.com` };
}

/** The time of a commit follows from the run and the step, so that a retry creates the same commit. */
export function commitTime({ createdAt }: ToolServices["spec"], { run }: Pick<ToolContext, "run">): Date {
  return new Date(Math.floor(createdAt / 1_000) * 1_000 + run.step * 1_000);
}

/** The result of `git_merge` and `git_pull`. */
const Merged = z.object({ branch: z.string(), commit: z.string(), applied: z.literal(true) });

/** Returns the merges among the finished calls, oldest first. */
export function mergesIn(history: readonly FinishedCall[]): z.infer<typeof Merged>[] {
  return history.flatMap(({ result: { value, error } }) => {
    const merged = !error && value.kind === "git.merge" && "data" in value && Merged.safeParse(value.data).data;
    return merged ? [merged] : [];
  });
}

/** Returns the last push among the finished calls, including calls that failed after pushing. */
export function lastPushed(history: readonly FinishedCall[]): Pushed | undefined {
  return history.map(pushedBy).findLast((pushed) => pushed !== undefined);
}

/** Returns the push that a call made; undefined when it made none. */
export function pushedBy({ result }: FinishedCall): Pushed | undefined {
  const data = "data" in result.value ? result.value.data : undefined;
  return z.object({ pushed: Pushed }).safeParse(result.error?.details ?? data).data?.pushed;
}

/** Returns the changes of the next push. Throws a ToolError if they exceed the limits or differ from the approved ones. */
async function changesToPush({ sandbox }: ToolServices, approved: Preview | undefined): Promise<FileChange[]> {
  const changes = (await proposedFiles(sandbox)).map(fileChange);
  const bytes = changes.reduce((sum, { size }) => sum + size, 0);
  if (changes.length > maxFiles || bytes > maxBytes) {
    throw new ToolError(
      `A pull request is limited to ${maxFiles} files and ${maxBytes / 1_000_000} MB; this one has ${changes.length} files and ${bytes} bytes.`,
      {
        code: "TOO_LARGE",
        suggestion: "Discard unrelated changes with git_discard; git_status lists every changed file.",
      },
    );
  }
  if (approved && digestOf(changesIn(approved)) !== digestOf(changes)) {
    throw new ToolError("The files have changed since the push was approved. Nothing was pushed.", {
      code: "STALE",
      suggestion: "Call the tool again to ask for approval of the current changes.",
    });
  }
  return changes;
}

function digestOf(changes: readonly FileChange[]): string {
  const sorted = changes.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  return createHash("sha256").update(canonicalJson(sorted)).digest("hex");
}
