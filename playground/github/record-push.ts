import { createCheckSuite } from "./check-actions.ts";
import { branches, isAncestor } from "./git/git-repository.ts";
import { followLine } from "./git/patch-lines.ts";
import { copyObjects, writeHeadRef } from "./pull-request-actions.ts";
import { type ActionContext, emit, recordEvent, updateThread } from "./user-actions.ts";
import { isPull, ofThread, type PullThread } from "./world.ts";

const noCommit = "0".repeat(40);

/** Emits a push event for each branch that has moved since the last call, and updates the pull requests from and to it. */
export async function recordPush(context: ActionContext): Promise<void> {
  const { repository } = context;
  const after = await branches(repository.gitDirectory);
  const before = repository.knownBranches;
  repository.knownBranches = after;
  for (const ref of new Set([...before.keys(), ...after.keys()])) {
    const [old, now] = [before.get(ref), after.get(ref)];
    if (old === now) continue;

    emit(context, { event: "push", action: undefined, push: { ref, before: old ?? noCommit, after: now ?? noCommit } });
    const branch = ref.replace(/^refs\/heads\//, "");
    openSuiteOfApp(context, branch, now);
    await updatePullRequests(context, branch, now);
  }
}

/** Opens a check suite, as GitHub does on every push for apps that may write checks. It is queued until the app adds runs. */
function openSuiteOfApp(context: ActionContext, branch: string, commit: string | undefined): void {
  const { app } = context.world;
  if (commit !== undefined && app.permissions.checks === "write") createCheckSuite(context, { app, branch, commit });
}

async function updatePullRequests(context: ActionContext, branch: string, commit: string | undefined): Promise<void> {
  const { repository, world } = context;
  const open = [...world.repositories.values()].flatMap((one) =>
    [...one.threads.values()].filter(isPull).filter(({ state }) => state === "open"),
  );
  for (const thread of open) {
    const { head, base } = thread.pull;
    if (base.repository === repository && base.branch === branch) await moveBase(context, thread, commit);
    if (head.repository === repository && head.branch === branch) await moveHead(context, thread, commit);
  }
}

/** Marks a pull request as merged once its commits are on the base branch, no matter who pushed them. */
async function moveBase(context: ActionContext, thread: PullThread, commit: string | undefined): Promise<void> {
  const { base, head } = thread.pull;
  if (commit === undefined) return updateThread(context, thread, { state: "closed" });
  base.commit = commit;
  if (await isAncestor(base.repository.gitDirectory, head.commit, commit)) markMerged(context, thread, commit);
}

async function moveHead(context: ActionContext, thread: PullThread, commit: string | undefined): Promise<void> {
  const { head, base } = thread.pull;
  const target = { ...context, repository: base.repository };
  if (commit === undefined) return updateThread(target, thread, { state: "closed" });
  if (head.repository !== base.repository) await copyObjects(head.repository, base.repository);
  const from = head.commit;
  head.commit = commit;
  await writeHeadRef(thread);
  thread.updatedAt = new Date();
  for (const comment of ofThread(base.repository.reviewComments, thread)) {
    const { path, side } = comment;
    const follow = (line: number | undefined) =>
      line === undefined || side === "LEFT"
        ? line
        : followLine(base.repository.gitDirectory, { path, line, from, to: commit });
    comment.line = await follow(comment.line);
    comment.startLine = comment.line === undefined ? undefined : await follow(comment.startLine);
  }
  const synchronize = { before: from, after: commit };
  emit(target, { event: "pull_request", action: "synchronize", thread, synchronize });
}

export function markMerged(context: ActionContext, thread: PullThread, commit: string): void {
  const at = new Date();
  thread.pull.merged = { at, by: context.actor, commit };
  thread.state = "closed";
  thread.closedAt = at;
  thread.updatedAt = at;
  recordEvent(context, thread, { event: "closed" });
  emit(context, { event: "pull_request", action: "closed", thread });
}
