import { z } from "zod";
import { branches, commitsBetween } from "#playground/github/git/git-repository.ts";
import {
  changedFiles,
  isPull,
  type PullThread,
  showFile,
  showPull,
  showPullInList,
  showReviewComment,
} from "#playground/github/shapes/pull-request.ts";
import { addReviewComment, openPullRequest, updateThread } from "#playground/github/user-actions.ts";
import type { AppPermissions, Repository } from "#playground/github/world.ts";
import { notFound, validationFailed } from "./api-error.ts";
import {
  numberIn,
  paginate,
  type RepositoryRequest,
  type RestOperation,
  readBody,
  repositoryOperation,
} from "./operation.ts";

const read: AppPermissions = { pull_requests: "read" };
const write: AppPermissions = { pull_requests: "write" };

const NewPull = z.object({
  title: z.string(),
  head: z.string(),
  base: z.string(),
  body: z.string().nullish(),
  draft: z.boolean().optional(),
});
const PullChange = z.object({
  title: z.string().optional(),
  body: z.string().nullish(),
  state: z.enum(["open", "closed"]).optional(),
  base: z.string().optional(),
});
const ReplyBody = z.object({ body: z.string() });
const NewReviewComment = z.object({
  body: z.string(),
  commit_id: z.string(),
  path: z.string(),
  line: z.number(),
});

const pulls = "/repos/{owner}/{repo}/pulls";

export const pullOperations: RestOperation[] = [
  repositoryOperation("get", pulls, read, (call) => {
    const { world, repository, url } = call;
    const { body, headers } = paginate(call, choosePulls(repository, url.searchParams));
    return { status: 200, headers, body: body.map((thread) => showPullInList(world, repository, thread)) };
  }),

  repositoryOperation("post", pulls, write, async (call) => {
    const { title, head, base, body, draft = false } = readBody(call, "PullRequest", NewPull);
    const ends = await findEnds(call.repository, { head, base });
    const thread = openPullRequest(call.context, { title, body: body ?? "", draft, ...ends });
    if (!isPull(thread)) throw notFound();
    return { status: 201, body: await showPull(call.world, call.repository, thread) };
  }),

  repositoryOperation("get", `${pulls}/{pull_number}`, read, async (call) => {
    return { status: 200, body: await showPull(call.world, call.repository, findPull(call)) };
  }),

  repositoryOperation("patch", `${pulls}/{pull_number}`, write, async (call) => {
    const thread = findPull(call);
    const { title, body, state } = readBody(call, "PullRequest", PullChange);
    updateThread(call.context, thread, { title, body: body === null ? "" : body, state });
    return { status: 200, body: await showPull(call.world, call.repository, thread) };
  }),

  repositoryOperation("get", `${pulls}/{pull_number}/files`, read, async (call) => {
    const thread = findPull(call);
    const { body, headers } = paginate(call, await changedFiles(call.repository, thread));
    const commit = thread.pull.head.commit;
    return { status: 200, headers, body: body.map((file) => showFile(call.world, call.repository, commit, file)) };
  }),

  repositoryOperation("get", `${pulls}/{pull_number}/comments`, read, (call) => {
    const { number } = findPull(call);
    const comments = [...call.repository.reviewComments.values()].filter(({ thread }) => thread === number);
    const { body, headers } = paginate(call, comments);
    return { status: 200, headers, body: body.map((one) => showReviewComment(call.world, call.repository, one)) };
  }),

  repositoryOperation("post", `${pulls}/{pull_number}/comments`, write, async (call) => {
    const thread = findPull(call);
    const { body, path, line, commit_id } = readBody(call, "PullRequestReviewComment", NewReviewComment);
    const file = (await changedFiles(call.repository, thread)).find((candidate) => candidate.path === path);
    if (!file?.patch) {
      throw validationFailed({ resource: "PullRequestReviewComment", code: "invalid", field: "path" });
    }
    const place = { path, line, diffHunk: file.patch, commit: commit_id, inReplyTo: undefined };
    const comment = addReviewComment(call.context, thread, { body, ...place });
    return { status: 201, body: showReviewComment(call.world, call.repository, comment) };
  }),

  repositoryOperation("post", `${pulls}/{pull_number}/comments/{comment_id}/replies`, write, (call) => {
    const thread = findPull(call);
    const parent = call.repository.reviewComments.get(numberIn(call, "comment_id"));
    if (parent?.thread !== thread.number) throw notFound();

    const { body } = readBody(call, "PullRequestReviewComment", ReplyBody);
    const { path, line, diffHunk, commit } = parent;
    const place = { path, line, diffHunk, commit, inReplyTo: parent.inReplyTo ?? parent.id };
    const reply = addReviewComment(call.context, thread, { body, ...place });
    return { status: 201, body: showReviewComment(call.world, call.repository, reply) };
  }),
];

function findPull(call: RepositoryRequest): PullThread {
  const thread = call.repository.threads.get(numberIn(call, "pull_number"));
  if (!thread || !isPull(thread)) throw notFound();
  return thread;
}

/** The commits a new pull request stands between, or the 422 that says why there can be none. */
async function findEnds(
  repository: Repository,
  names: { head: string; base: string },
): Promise<{ head: { branch: string; commit: string }; base: { branch: string; commit: string } }> {
  const owner = repository.owner.login.toLowerCase();
  const [, headOwner, branch = names.head] = /^([^:]+):(.+)$/.exec(names.head) ?? [];
  const heads = await branches(repository.gitDirectory);
  const base = heads.get(`refs/heads/${names.base}`);
  const head = (headOwner ?? owner).toLowerCase() === owner ? heads.get(`refs/heads/${branch}`) : undefined;
  if (!base) throw validationFailed({ resource: "PullRequest", field: "base", code: "invalid" });
  if (!head) throw validationFailed({ resource: "PullRequest", field: "head", code: "invalid" });

  const custom = (message: string) => validationFailed({ resource: "PullRequest", code: "custom", message });
  const same = [...repository.threads.values()].find(
    ({ state, pull }) => state === "open" && pull?.head.branch === branch && pull.base.branch === names.base,
  );
  if (same) throw custom(`A pull request already exists for ${repository.owner.login}:${branch}.`);
  if ((await commitsBetween(repository.gitDirectory, base, head)).length === 0) {
    throw custom(`No commits between ${names.base} and ${branch}`);
  }
  return { head: { branch, commit: head }, base: { branch: names.base, commit: base } };
}

function choosePulls(repository: Repository, query: URLSearchParams): PullThread[] {
  const state = query.get("state") ?? "open";
  const head = query.get("head")?.toLowerCase();
  const base = query.get("base");
  const owner = repository.owner.login;
  return [...repository.threads.values()]
    .filter(isPull)
    .filter(
      ({ state: actual, pull }) =>
        (state === "all" || actual === state) &&
        (!base || pull.base.branch === base) &&
        // GitHub ignores a head filter that does not name the owner.
        (!head?.includes(":") || `${owner}:${pull.head.branch}`.toLowerCase() === head),
    )
    .reverse();
}
