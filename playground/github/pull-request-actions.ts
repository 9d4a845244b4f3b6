import { cp, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { branches, type ChangedFile, commitsBetween, diffFiles } from "./git/git-repository.ts";
import { ApiError, validationFailed } from "./rest/api-error.ts";
import { type ActionContext, addThread, emit, recordEvent } from "./user-actions.ts";
import { isPull, type PullThread, permissionIn, type Repository, type User } from "./world.ts";

/** Opens a pull request. `head` is a branch, or `owner:branch` for the branch of a fork. */
export async function openPullRequest(
  context: ActionContext,
  { title, body = "", draft = false, ...names }: PullRequestOptions,
): Promise<PullThread> {
  const { world, repository } = context;
  if (draft && repository.private && repository.plan === "free") {
    throw new ApiError(422, "Draft pull requests are not supported in this repository.");
  }
  const { head, base } = await resolveEnds(context, names);
  const fields = { id: world.nextId(), head, base, draft, requestedReviewers: [], merged: undefined };
  const thread = addThread(context, { title, body, pull: fields });
  await writeHeadRef(thread);
  emit(context, { event: "pull_request", action: "opened", thread });
  return thread;
}

export interface PullRequestOptions {
  title: string;
  body?: string;
  head: string;
  base: string;
  draft?: boolean;
}

/** Resolves the two ends of a new pull request. Throws the 422 that says why it cannot be opened. */
async function resolveEnds(
  { world, repository }: ActionContext,
  names: { head: string; base: string },
): Promise<Pick<PullThread["pull"], "head" | "base">> {
  const [, owner = repository.owner.login, branch = names.head] = /^([^:]+):(.+)$/.exec(names.head) ?? [];
  const source = [repository, ...world.repositories.values()].find(
    (one) => one.owner.login.toLowerCase() === owner.toLowerCase() && (one === repository || one.forkOf === repository),
  );
  const invalid = (field: string) => validationFailed({ resource: "PullRequest", field, code: "invalid" });
  const base = (await branches(repository.gitDirectory)).get(`refs/heads/${names.base}`);
  if (!base) throw invalid("base");
  const head = source && (await branches(source.gitDirectory)).get(`refs/heads/${branch}`);
  if (!head) throw invalid("head");

  const refuse = (message: string) => validationFailed({ resource: "PullRequest", code: "custom", message });
  const existing = [...repository.threads.values()].find(
    ({ state, pull }) =>
      state === "open" &&
      pull?.head.branch === branch &&
      pull.head.repository === source &&
      pull.base.branch === names.base,
  );
  if (existing) throw refuse(`A pull request already exists for ${owner}:${branch}.`);
  if (source !== repository) await copyObjects(source, repository);
  if ((await commitsBetween(repository.gitDirectory, base, head)).length === 0) {
    throw refuse(`No commits between ${names.base} and ${names.head}`);
  }
  return {
    head: { repository: source, branch, commit: head },
    base: { repository, branch: names.base, commit: base },
  };
}

/** Makes a fork's commits available in the repository that its pull request is for. */
export function copyObjects(from: Repository, to: Repository): Promise<void> {
  const objects = (repository: Repository) => join(repository.gitDirectory, "objects");
  // Objects never change, so existing ones are kept.
  return cp(objects(from), objects(to), { recursive: true, force: false });
}

/** Points `refs/pull/<number>/head` of the repository to the head of a pull request, whichever repository that is from. */
export async function writeHeadRef({ number, pull: { base, head } }: PullThread): Promise<void> {
  const file = join(base.repository.gitDirectory, `refs/pull/${number}/head`);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${head.commit}\n`);
}

export async function changeBase(context: ActionContext, thread: PullThread, branch: string): Promise<void> {
  const { base } = thread.pull;
  if (branch === base.branch) return;
  const commit = (await branches(context.repository.gitDirectory)).get(`refs/heads/${branch}`);
  if (!commit) throw validationFailed({ resource: "PullRequest", field: "base", code: "invalid" });

  const changes = { base: { ref: { from: base.branch }, sha: { from: base.commit } } };
  thread.pull.base = { ...base, branch, commit };
  emit(context, { event: "pull_request", action: "edited", thread, changes });
}

export function setDraft(context: ActionContext, thread: PullThread, draft: boolean): void {
  if (thread.pull.draft === draft) return;
  if (draft && context.repository.private && context.repository.plan === "free") {
    throw new ApiError(422, "Draft pull requests are not supported in this repository.");
  }
  thread.pull.draft = draft;
  thread.updatedAt = new Date();
  const action = draft ? "converted_to_draft" : "ready_for_review";
  if (action === "ready_for_review") recordEvent(context, thread, { event: action });
  emit(context, { event: "pull_request", action, thread });
}

export function changedFiles(repository: Repository, { pull }: PullThread): Promise<ChangedFile[]> {
  return diffFiles(repository.gitDirectory, pull.base.commit, pull.head.commit);
}

/** Requests reviews. Bots cannot review, and authors cannot review their own pull request. */
export function requestReviewers(context: ActionContext, thread: PullThread, reviewers: User[]): void {
  const { repository } = context;
  for (const requestedReviewer of reviewers) {
    const permission = permissionIn(repository, requestedReviewer.login);
    if (
      requestedReviewer.type !== "User" ||
      !repository.permissions.has(requestedReviewer.login.toLowerCase()) ||
      permission === "none"
    ) {
      throw new ApiError(
        422,
        "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the repository.",
      );
    }
    if (requestedReviewer === thread.author) {
      throw new ApiError(422, "Review cannot be requested from pull request author.");
    }
    if (thread.pull.requestedReviewers.includes(requestedReviewer)) continue;
    thread.pull.requestedReviewers.push(requestedReviewer);
    thread.updatedAt = new Date();
    recordEvent(context, thread, { event: "review_requested", reviewer: requestedReviewer });
    emit(context, { event: "pull_request", action: "review_requested", thread, requestedReviewer });
  }
}

export function findPull(repository: Repository, number: number): PullThread | undefined {
  const thread = repository.threads.get(number);
  return thread && isPull(thread) ? thread : undefined;
}
