import { commitsBetween, moveBranch, readGitCommit } from "./git/git-repository.ts";
import { mergeCommits, writeCommit } from "./git/merge-commits.ts";
import { markMerged, recordPush } from "./record-push.ts";
import { ApiError } from "./rest/api-error.ts";
import type { ActionContext } from "./user-actions.ts";
import type { Conclusion, PullThread, Repository } from "./world.ts";

/** `unknown` until GitHub has computed it in the background, which starts at the first request. */
export type Mergeability = "clean" | "dirty" | "unstable" | "blocked" | "draft" | "unknown";

const merges = new WeakMap<PullThread, { key: string; clean: boolean | undefined }>();

/** Returns the mergeability of a pull request, as far as it has been computed. */
export function mergeability(context: Pick<ActionContext, "world" | "repository">, thread: PullThread): Mergeability {
  const { repository, world } = context;
  const { base, head, draft } = thread.pull;
  const key = `${base.commit} ${head.commit}`;
  const known = merges.get(thread);
  if (known?.key !== key) {
    const computed: { key: string; clean: boolean | undefined } = { key, clean: undefined };
    merges.set(thread, computed);
    mergeCommits(repository.gitDirectory, base.commit, head.commit).then(
      ({ kind }) => {
        computed.clean = kind === "clean";
        world.notify();
      },
      // The repository may have been deleted meanwhile.
      () => undefined,
    );
    return "unknown";
  }
  if (known.clean === undefined) return "unknown";
  if (!known.clean) return "dirty";
  if (draft) return "draft";
  const results = checkResults(repository, head.commit);
  if (repository.requiredChecks.some((name) => results.get(name) !== "success")) return "blocked";
  return [...results.values()].some((result) => result !== "success" && result !== "neutral" && result !== "skipped")
    ? "unstable"
    : "clean";
}

/** Returns the latest result of each check and status of a commit, by name; undefined until it is complete. */
function checkResults(repository: Repository, commit: string): Map<string, Conclusion | "error" | undefined> {
  const runs = repository.checkRuns
    .filter(({ suite }) => suite.commit === commit)
    .map(({ name, conclusion }) => [name, conclusion] as const);
  const statuses = repository.statuses
    .filter((status) => status.commit === commit)
    .map(({ context, state }) => [context, state === "pending" ? undefined : state] as const);
  return new Map([...runs, ...statuses]);
}

export interface PullMergeInput {
  method?: "merge" | "squash" | "rebase" | undefined;
}

/** Merges a pull request into its base branch. Returns the new commit. */
export async function mergePullRequest(
  context: ActionContext,
  thread: PullThread,
  { method = "merge" }: PullMergeInput = {},
): Promise<string> {
  const { repository, actor } = context;
  const { head, base, draft } = thread.pull;
  if (draft) throw new ApiError(405, "Pull Request is still a draft");
  if (thread.state === "closed") throw new ApiError(405, "Pull Request is not mergeable");
  const results = checkResults(repository, head.commit);
  const missing = repository.requiredChecks.filter((name) => results.get(name) !== "success");
  if (missing.length > 0) throw new ApiError(405, `Required status check "${missing[0]}" is expected.`);
  const tip = base.commit;
  const merge = await mergeCommits(repository.gitDirectory, tip, head.commit);
  if (merge.kind === "conflicts") throw new ApiError(405, "Pull Request is not mergeable");

  if (method === "rebase") {
    const commit = await rebase(repository.gitDirectory, { tip, head: head.commit, login: actor.login });
    return finishMerge(context, thread, { tip, commit });
  }
  const headline =
    method === "squash"
      ? `${thread.title} (#${thread.number})`
      : `Merge pull request #${thread.number} from ${head.repository.owner.login}/${head.branch}`;
  const body = method === "squash" ? thread.body : thread.title;
  const commit = await writeCommit(repository.gitDirectory, {
    tree: merge.tree,
    parents: method === "squash" ? [tip] : [tip, head.commit],
    message: `${headline}\n\n${body}`,
    login: actor.login,
  });
  return finishMerge(context, thread, { tip, commit });
}

async function finishMerge(
  context: ActionContext,
  thread: PullThread,
  { tip, commit }: { tip: string; commit: string },
): Promise<string> {
  await moveBranch(context.repository.gitDirectory, thread.pull.base.branch, { from: tip, to: commit });
  markMerged(context, thread, commit);
  await recordPush(context);
  return commit;
}

/** Writes the commits of `head` again on top of `tip`, without those that are merges. Returns the last one. */
async function rebase(
  gitDirectory: string,
  { tip, head, login }: { tip: string; head: string; login: string },
): Promise<string> {
  let onto = tip;
  for (const commit of await commitsBetween(gitDirectory, tip, head)) {
    const { parent, message } = await readGitCommit(gitDirectory, commit);
    if (parent.length !== 1) continue;
    const { tree: ours } = await readGitCommit(gitDirectory, onto);
    // A commit with the files of `onto`, whose merge base with the commit is the parent of the latter.
    const sibling = await writeCommit(gitDirectory, { tree: ours, parents: parent, message: "", login });
    const merge = await mergeCommits(gitDirectory, sibling, commit);
    if (merge.kind === "conflicts") throw new ApiError(405, "This branch can't be rebased due to conflicts");
    onto = await writeCommit(gitDirectory, { tree: merge.tree, parents: [onto], message, login });
  }
  return onto;
}
