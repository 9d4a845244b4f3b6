import { branches, commitsOfPush, isAncestor } from "./git/git-repository.ts";
import { showInstallation } from "./shapes/app.ts";
import { showCheckRun, showCheckSuite, showCommitStatus, showWorkflowRun, simpleCommit } from "./shapes/check.ts";
import { nodeId } from "./shapes/node-id.ts";
import { showCommit, showPull, showPullInList } from "./shapes/pull-request.ts";
import { fullName, showRepository } from "./shapes/repository.ts";
import { showReview, showReviewComment } from "./shapes/review.ts";
import { showComment, showIssue, showLabel } from "./shapes/thread.ts";
import { showUser } from "./shapes/user.ts";
import {
  type CheckRun,
  type CommitStatus,
  type Installation,
  type InstallationEvent,
  isPull,
  type Repository,
  type StoredReviewComment,
  type Thread,
  type WebhookEvent,
  type World,
} from "./world.ts";

/** Returns the payload of a webhook in GitHub's format. Reads memory synchronously and awaits only git. */
export function describeEvent(world: World, event: WebhookEvent, { id }: Installation): Promise<object> {
  const { repository, action, sender, comment, review, reviewComment, requestedReviewer, assignee, label, changes } =
    event;
  const now = {
    ...(action && { action }),
    ...(comment && { comment: showComment(world, repository, comment) }),
    ...(review && { review: describeReview(world, event) }),
    ...(reviewComment && describeReviewComment(world, event, reviewComment)),
    ...(requestedReviewer && { requested_reviewer: showUser(world, requestedReviewer) }),
    ...(assignee && { assignee: showUser(world, assignee) }),
    ...event.synchronize,
    ...(label && { label: showLabel(world, repository, label) }),
    ...(changes && { changes }),
    repository: showRepository(world, repository),
    ...(repository.owner.type === "Organization" && {
      organization: describeOrganization(world, repository.owner.login),
    }),
    sender: showUser(world, sender),
    installation: { id, node_id: nodeId("Installation", id) },
  };
  return withGitData(world, event, now);
}

async function withGitData(world: World, event: WebhookEvent, payload: object): Promise<object> {
  const { repository, thread, push, checkRun, checkSuite, workflowRun, status } = event;
  return {
    ...payload,
    ...(thread && (await describeThread(world, event, thread))),
    ...(push && (await describePush(world, event, push))),
    ...(checkRun && { check_run: await describeCheckRun(world, repository, checkRun) }),
    ...(checkSuite && { check_suite: await showCheckSuite(world, repository, checkSuite) }),
    ...(workflowRun && { workflow_run: await showWorkflowRun(world, repository, workflowRun), workflow: null }),
    ...(status && (await describeStatus(world, repository, status))),
  };
}

async function describeThread(world: World, { event, repository }: WebhookEvent, thread: Thread): Promise<object> {
  if (event === "issues" || event === "issue_comment" || !isPull(thread)) {
    return { issue: showIssue(world, repository, thread) };
  }
  if (event !== "pull_request") return { pull_request: showPullInList(world, repository, thread) };
  return { number: thread.number, pull_request: await showPull(world, repository, thread) };
}

/** Webhooks write the state of a review in lower case. */
function describeReview(world: World, { repository, review }: WebhookEvent): object | undefined {
  if (!review) return undefined;
  const shown = showReview(world, repository, review);
  return { ...shown, state: shown.state.toLowerCase(), submitted_at: shown.submitted_at ?? null };
}

function describeReviewComment(world: World, { event, repository }: WebhookEvent, first: StoredReviewComment): object {
  if (event !== "pull_request_review_thread") return { comment: showReviewComment(world, repository, first) };
  const replies = [...repository.reviewComments.values()].filter(({ inReplyTo }) => inReplyTo === first.id);
  const comments = [first, ...replies].map((comment) => showReviewComment(world, repository, comment));
  return { thread: { node_id: nodeId("PullRequestReviewThread", first.id), comments } };
}

async function describeCheckRun(world: World, repository: Repository, checkRun: CheckRun): Promise<object> {
  const shown = showCheckRun(world, repository, checkRun);
  return { ...shown, check_suite: await showCheckSuite(world, repository, checkRun.suite) };
}

async function describeStatus(world: World, repository: Repository, status: CommitStatus): Promise<object> {
  const { id, state, context, description, target_url, created_at, updated_at } = showCommitStatus(
    world,
    repository,
    status,
  );
  return {
    id,
    sha: status.commit,
    name: fullName(repository),
    state,
    context,
    description,
    target_url,
    branches: await branchesAt(repository, status.commit),
    commit: await showCommit(world, repository, status.commit),
    created_at,
    updated_at,
  };
}

async function branchesAt({ gitDirectory }: Repository, commit: string) {
  const at = [...(await branches(gitDirectory))].filter(([, sha]) => sha === commit);
  return at.map(([ref, sha]) => ({
    name: ref.replace(/^refs\/heads\//, ""),
    commit: { sha, url: "" },
    protected: false,
  }));
}

export function describeInstallationEvent(world: World, event: InstallationEvent): object {
  const { action, installation, sender } = event;
  const repositories = event.repositories.map((repository) => ({
    id: repository.id,
    node_id: nodeId("Repository", repository.id),
    name: repository.name,
    full_name: fullName(repository),
    private: repository.private,
  }));
  const [added, removed] = action === "added" ? [repositories, []] : [[], repositories];
  return {
    action,
    installation: showInstallation(world, installation),
    requester: null,
    ...(event.event === "installation"
      ? { repositories }
      : { repository_selection: "selected", repositories_added: added, repositories_removed: removed }),
    sender: showUser(world, sender),
  };
}

/** Describes a push. Only in this event, the repository has other fields and times in seconds. */
async function describePush(
  world: World,
  { repository, sender }: WebhookEvent,
  { ref, before, after }: NonNullable<WebhookEvent["push"]>,
): Promise<object> {
  const shown = showRepository(world, repository);
  const seconds = (date: Date) => Math.floor(date.getTime() / 1000);
  const owner = { ...shown.owner, name: repository.owner.login, email: null };
  const [created, deleted] = [isNoCommit(before), isNoCommit(after)];
  const { gitDirectory } = repository;
  const isMoved = !created && !deleted;
  const commits = isMoved ? await commitsOfPush(gitDirectory, before, after) : [];
  const headCommit = deleted ? null : await simpleCommit(repository, after);
  return {
    ref,
    before,
    after,
    created,
    deleted,
    forced: isMoved && !(await isAncestor(gitDirectory, before, after)),
    base_ref: null,
    compare: `${world.url}/${fullName(repository)}/compare/${before}...${after}`,
    commits: await Promise.all(
      commits.map(async ({ sha, ...paths }) => ({ ...(await simpleCommit(repository, sha)), ...paths })),
    ),
    head_commit: headCommit,
    pusher: { name: sender.login, email: `${sender.login}@users.noreply.github.invalid` },
    repository: {
      ...shown,
      owner,
      created_at: seconds(repository.createdAt),
      pushed_at: seconds(new Date()),
      stargazers: 0,
      master_branch: repository.defaultBranch,
    },
  };
}

function isNoCommit(hash: string): boolean {
  return /^0+$/.test(hash);
}

function describeOrganization(world: World, login: string) {
  const organization = world.users.get(login.toLowerCase());
  const url = `${world.url}/api/v3/orgs/${login}`;
  return {
    login,
    id: organization?.id ?? 0,
    node_id: nodeId("Organization", organization?.id ?? 0),
    url,
    repos_url: `${url}/repos`,
    events_url: `${url}/events`,
    hooks_url: `${url}/hooks`,
    issues_url: `${url}/issues`,
    members_url: `${url}/members{/member}`,
    public_members_url: `${url}/public_members{/member}`,
    avatar_url: `${world.url}/-/avatars/${organization?.id ?? 0}`,
    description: "",
  };
}
