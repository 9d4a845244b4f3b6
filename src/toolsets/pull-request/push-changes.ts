import { z } from "zod";
import { canonicalJson } from "#domain/approval.ts";
import { withTrailers } from "#domain/commit-trailers.ts";
import { messageOf, ToolError } from "#domain/errors.ts";
import { changesIn, type Preview, type PreviewSection } from "#domain/preview.ts";
import { pushDataOf } from "#domain/run.ts";
import type { ToolContext } from "#domain/tool.ts";
import { BranchMovedError } from "#sandbox/git/push-changes.ts";
import { hasConflict } from "#sandbox/merge/merge-branch.ts";
import { digestOfChanges, type FileVersions, fileChange } from "#sandbox/preview-files.ts";
import type { MergedCommit, PushPlan } from "#sandbox/sandbox.ts";
import { isProtectedPath, previewChanges } from "#toolsets/filesystem/file-changes.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";

/** The state of the run's own branch after a push, as recorded in the result of the call. */
export const Pushed = z.object({
  commit: z.string(),
  /** SHA-256 of all changes in the commit. */
  changes: z.string(),
});
export type Pushed = z.infer<typeof Pushed>;

const maxFiles = 100;
const maxBytes = 4_000_000;

/** The commits that the next push of a run follows. */
export interface PushParents {
  /** The commit that the branch is expected to be at; undefined before the run's first push to its own branch. */
  tip: string | undefined;
  /** The commits merged into the files since the last push. */
  merged: (MergedCommit & { branch: string })[];
}

export function pushParents({ spec, sandbox, branch }: ToolServices, history: readonly FinishedCall[]): PushParents {
  // A run on someone's pull request continues from the commit it started from.
  const previous =
    lastPushed(history)?.commit ?? (spec.pullRequestBranch === undefined ? undefined : sandbox.base.commit);
  const base = spec.pullRequestBranch === undefined ? sandbox.base.branch : spec.pullRequestBase;
  const merges = mergesIn(history.slice(history.findLastIndex((call) => pushedBy(call) !== undefined) + 1));
  // The commit that people pushed to the run's branch, if the run has merged it.
  const own = merges.findLast((merge) => merge.branch === branch)?.commit;
  return {
    tip: own ?? previous,
    merged: merges.map((merge) => ({
      commit: merge.commit,
      branch: merge.branch,
      since: sinceOf(merge) ?? (merge.branch === branch && previous !== undefined ? [previous] : undefined),
      isBase: merge.branch === base && merge.branch !== branch,
    })),
  };
}

/** Returns what the working files contain already of this branch and of others, used to compute a merge. */
export function mergeStart(services: ToolServices, branch: string): { heads: string[]; since: string | undefined } {
  const { tip, merged } = pushParents(services, services.history());
  const heads = [...new Set([tip ?? services.sandbox.base.commit, ...merged.map(({ commit }) => commit)])];
  return { heads, since: branch === services.branch ? tip : undefined };
}

/**
 * Plans the next push. Lists only the files it adds to the branch, not those that match a merged commit of the base
 * branch. Throws a ToolError if there is nothing to propose or a conflict is left, so that nobody is asked to approve it.
 */
async function planPush(
  services: ToolServices,
  signal: AbortSignal | undefined,
): Promise<PushPlan & { parents: PushParents; isEmpty: boolean }> {
  const { sandbox, history, spec } = services;
  if (spec.isFork) {
    throw new ToolError("A run on a pull request from a fork cannot push.", {
      code: "PERMISSION_DENIED",
      suggestion: "Report what you found.",
    });
  }
  const parents = pushParents(services, history());
  const plan = await sandbox.planPush(parents, signal).catch((error: unknown) => {
    if (error instanceof ToolError) throw error;
    throw new ToolError(messageOf(error), { code: "CONFLICT", cause: error });
  });
  const isEmpty = plan.files.length === 0 && parents.merged.length === 0;
  if (isEmpty && !lastPushed(history())) {
    throw new ToolError("There are no changes to propose.", {
      code: "CONFLICT",
      suggestion: "Change files first; git_status lists the changes.",
    });
  }
  const unresolved = plan.files.filter(({ before, after }) => {
    return after && hasConflict(after.content) && !(before && hasConflict(before.content));
  });
  if (unresolved.length > 0) {
    const paths = unresolved.map(({ path }) => path).join(", ");
    throw new ToolError(`A merge has left conflict markers in these files: ${paths}.`, {
      code: "CONFLICT",
      suggestion: "Resolve the conflicts, which git_check_conflicts lists, then call this tool again.",
    });
  }
  return { ...plan, parents, isEmpty };
}

/** True if the next push changes a protected file, which a command may have changed without approval. */
export async function pushesProtectedFile(services: ToolServices, signal?: AbortSignal): Promise<boolean> {
  const { files } = await services.sandbox.planPush(pushParents(services, services.history()), signal);
  return files.some(({ path }) => isProtectedPath(path));
}

/**
 * Returns a preview of everything that a push publishes: the texts written by the model, then every file that it adds
 * to the branch. It is bound to the whole tree and its parents, including what is not listed.
 */
export async function previewPush(
  services: ToolServices,
  texts: Record<string, string | undefined>,
  signal?: AbortSignal,
): Promise<Preview> {
  const { files, tree, parents } = await planPush(services, signal);
  const merged = parents.merged.map(
    ({ branch, commit, isBase }) =>
      `${branch} at ${commit.slice(0, 10)}${isBase ? "; files that are the same there are not listed" : ""}`,
  );
  const all = { ...texts, ...(merged.length > 0 && { Merges: merged.join("\n") }) };
  const sections = Object.entries(all).flatMap(([title, text]): PreviewSection[] =>
    text === undefined ? [] : [{ kind: "text", title, text }],
  );
  return { ...(await previewChanges(files, sections)), filesFixed: true, bindings: bindingsOf(tree, parents) };
}

function bindingsOf(tree: string, { tip = "", merged }: PushParents): Record<string, string> {
  return { tree, parents: [tip, ...merged.map(({ commit }) => commit)].join(" ") };
}

/**
 * Commits the run's changes to its own branch. A retry of the call creates the same commit: the parent is the commit
 * that earlier calls pushed, not the current tip of the branch, and the time is derived from the run and the step.
 */
export async function pushChanges({
  services,
  context,
  message,
}: {
  services: ToolServices;
  context: ToolContext;
  message: string;
}): Promise<Pushed> {
  const { sandbox, github, branch, spec } = services;
  const { parents, files, tree, isEmpty } = await planPush(services, context.abortSignal);
  assertAsApproved(files, bindingsOf(tree, parents), context.approved);
  const changes = (await sandbox.outgoing()).map(fileChange);
  const last = lastPushed(services.history());
  const isKnown = last?.changes === digestOfChanges(changes) && parents.merged.length === 0;
  if (last && (isEmpty || isKnown)) return last;

  const { tip: expectedTip, merged } = parents;
  try {
    const commit = await sandbox.push({
      branch,
      changes,
      message: withRunTrailers(message, services, context),
      author: await authorOf(github),
      at: commitTime(spec, context),
      ...(expectedTip ? { expectedTip } : {}),
      merged,
      tree,
      signal: context.abortSignal,
    });
    return { commit, changes: digestOfChanges(changes) };
  } catch (error) {
    if (!(error instanceof BranchMovedError)) throw error;
    throw new ToolError(error.message, {
      code: "CONFLICT",
      suggestion: `Merge the new commits: call git_merge with the branch ${branch}, then call this tool again.`,
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
  return withTrailers(sanitize(message, "plain"), { runId: spec.id, requestedBy: { login, id }, approval });
}

export async function authorOf(github: ToolServices["github"]): Promise<{ name: string; email: string }> {
  const login = await github.ownLogin();
  return { name: login, email: `${login}@users.noreply.github.com` };
}

/** Derives the time of a commit from the run and the step, so that a retry creates the same commit. */
export function commitTime({ createdAt }: ToolServices["spec"], { run }: Pick<ToolContext, "run">): Date {
  return new Date(Math.floor(createdAt / 1_000) * 1_000 + run.step * 1_000);
}

/** The result of `git_merge` and `git_pull`. */
const Merged = z.object({
  branch: z.string(),
  commit: z.string(),
  applied: z.literal(true),
  /** Undefined for merges made before this field was added. */
  mergeBase: z.string().optional(),
  /** All of them, if there are several. */
  mergeBases: z.array(z.string()).optional(),
});

function sinceOf({ mergeBase, mergeBases }: z.infer<typeof Merged>): string[] | undefined {
  return mergeBases ?? (mergeBase === undefined ? undefined : [mergeBase]);
}

/** Returns the merges among the finished calls, oldest first. */
function mergesIn(history: readonly FinishedCall[]): z.infer<typeof Merged>[] {
  return history.flatMap(({ result: { value, error } }) => {
    const merged = !error && value.kind === "git.merge" && "data" in value && Merged.safeParse(value.data).data;
    // A branch without new commits needs no merge commit.
    return merged && merged.commit !== merged.mergeBase ? [merged] : [];
  });
}

/** Returns the last push among the finished calls, including calls that failed after pushing. */
export function lastPushed(history: readonly FinishedCall[]): Pushed | undefined {
  return history.map(pushedBy).findLast((pushed) => pushed !== undefined);
}

/** Returns the push that a call made; undefined if it made none. */
export function pushedBy({ tool, result }: FinishedCall): Pushed | undefined {
  return z.object({ pushed: Pushed }).safeParse(pushDataOf(tool, result)).data?.pushed;
}

/** Throws a ToolError if the files of a push exceed the limits, or if the push is not the approved one. */
function assertAsApproved(
  files: readonly FileVersions[],
  bindings: Record<string, string>,
  approved: Preview | undefined,
): void {
  const bytes = files.reduce((sum, { after }) => sum + (after?.content.length ?? 0), 0);
  if (files.length > maxFiles || bytes > maxBytes) {
    throw new ToolError(
      `A push is limited to ${maxFiles} files and ${maxBytes / 1_000_000} MB; this one has ${files.length} files and ${bytes} bytes.`,
      {
        code: "TOO_LARGE",
        suggestion: "Discard unrelated changes with git_discard; git_status lists every changed file.",
      },
    );
  }
  if (!approved) return;
  const isSame =
    digestOfChanges(changesIn(approved)) === digestOfChanges(files.map(fileChange)) &&
    canonicalJson(approved.bindings ?? {}) === canonicalJson(bindings);
  if (isSame) return;
  throw new ToolError("The files have changed since the push was approved. Nothing was pushed.", {
    code: "STALE",
    suggestion: "Call the tool again to ask for approval of the current changes.",
  });
}
