import { withRetries } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import {
  type Account,
  type Check,
  type CheckAnnotation,
  type Comment,
  type CommentBody,
  type CommitChecks,
  type GitHub,
  GitHubRefusalError,
  type Issue,
  type NewCheckRun,
  type NewCommit,
  type Permission,
  type PullRequest,
  type PullRequestFile,
  type ReactionContent,
  type RepositoryRef,
  type RequestPriority,
  type Review,
  type ReviewComment,
  type ReviewThread,
  type StateChange,
  type ThreadAction,
} from "#domain/github.ts";
import { isRunBranch } from "#domain/run.ts";
import { hasMarker, markerOf } from "#text/comment-marker.ts";
import { findAccount, isTeamMember, readPermissionOf } from "./accounts.ts";
import {
  downloadAttachment,
  findAttachments,
  findSignedUrl,
  HiddenAttachmentError,
  renderThread,
} from "./attachments.ts";
import { postCheckRun, readAnnotations, readCommitChecks, readJobLog, readRequiredChecks } from "./commit-checks.ts";
import {
  findLinkedIssues,
  postReview,
  readMinimizedComments,
  readReviews,
  readReviewThreads,
  readStateChange,
  readWasViaApp,
} from "./conversation.ts";
import { createSignedCommit } from "./create-commit.ts";
import { assertReadableSize, type DotGitHubReader } from "./dot-github-reader.ts";
import type { RepositoryTokens } from "./installation-tokens.ts";
import {
  type Identity,
  type PullRequestData,
  readComment,
  readIssue,
  readPullRequest,
  readReviewComment,
} from "./read-responses.ts";
import { hasNoDrafts, httpStatusOf, isInvalidBase, mayNotOpenPullRequests, undefinedIfMissing } from "./refusals.ts";
import type { RepositoryApi } from "./repository-api.ts";

/** A delivery or an effect reads everything below `.github` at one point in time. */
const defaultMaxAgeMs = 1_000;

/** A reaction that is added twice is there once. */
const reactionOptions = { maxRetries: 3, priority: "optional" as const };

/** A comparison lists this many files at most. */
const maxComparedFiles = 300;

interface RepositoryClientOptions {
  repository: RepositoryRef;
  api: RepositoryApi;
  tokens: RepositoryTokens;
  dotGitHub: DotGitHubReader;
  identity: Identity;
  webUrl: string;
  redact: (text: string) => string;
}

/** One repository on GitHub. Every text it sends is redacted. */
export class RepositoryClient implements GitHub {
  readonly repository: RepositoryRef;
  readonly ownLogin: () => Promise<string>;
  readonly #api: RepositoryApi;
  readonly #tokens: RepositoryTokens;
  readonly #dotGitHub: DotGitHubReader;
  readonly #identity: Identity;
  readonly #webUrl: string;
  readonly #redact: (text: string) => string;
  /** The HTML of threads, by number, in which the signed addresses of several files are found. */
  readonly #renderedThreads = new Map<number, Promise<string>>();

  constructor({ repository, api, tokens, dotGitHub, identity, webUrl, redact }: RepositoryClientOptions) {
    this.repository = repository;
    this.ownLogin = identity.ownLogin;
    this.#api = api;
    this.#tokens = tokens;
    this.#dotGitHub = dotGitHub;
    this.#identity = identity;
    this.#webUrl = webUrl;
    this.#redact = redact;
  }

  getPermission(login: string, id?: number): Promise<Permission> {
    return readPermissionOf(this.#api, this.repository, { login, id });
  }

  async confirmPermission(login: string, signal: AbortSignal, id?: number): Promise<Permission> {
    return withRetries(() => this.getPermission(login, id), { signal });
  }

  findAccount(login: string): Promise<{ login: string; id: number } | undefined> {
    return findAccount(this.#api, login);
  }

  isTeamMember(team: string, person: Account): Promise<boolean> {
    return isTeamMember(this.#api, team, person);
  }

  async isPerson(login: string): Promise<boolean> {
    const user = await undefinedIfMissing(this.#api.call("GET /users/{username}", { username: login }));
    return user?.type === "User";
  }

  async getRepository() {
    const data = await this.#api.call("GET /repos/{owner}/{repo}", {});
    const { default_branch: defaultBranch, clone_url: cloneUrl } = data;
    return { owner: data.owner.login, repo: data.name, defaultBranch, private: data.private, cloneUrl };
  }

  async getCloneUrl(): Promise<string> {
    await this.#api.confirmName();
    return this.#tokens.nameOf(this.repository).cloneUrl ?? (await this.getRepository()).cloneUrl;
  }

  async getIssue(number: number): Promise<Issue | undefined> {
    const endpoint = "GET /repos/{owner}/{repo}/issues/{issue_number}";
    const data = await undefinedIfMissing(this.#api.call(endpoint, { issue_number: number }));
    return data && readIssue(data);
  }

  async listIssues({ state = "open", labels, limit = 30 }: Parameters<GitHub["listIssues"]>[0]): Promise<Issue[]> {
    const issues: Issue[] = [];
    const query = { state, ...(labels?.length ? { labels: labels.join(",") } : {}), per_page: 100 };
    for (let page = 1; issues.length < limit; page++) {
      const answer = await this.#api.call("GET /repos/{owner}/{repo}/issues", { ...query, page });
      issues.push(...answer.map(readIssue).filter((issue) => !issue.isPullRequest));
      if (answer.length < query.per_page) break;
    }
    return issues.slice(0, limit);
  }

  async listComments(number: number): Promise<Comment[]> {
    const endpoint = "GET /repos/{owner}/{repo}/issues/{issue_number}/comments";
    const pages = await this.#api.callPages(endpoint, { issue_number: number });
    return Promise.all(pages.flat().map((comment) => readComment(comment, this.#identity)));
  }

  async getComment(commentId: number): Promise<Comment | undefined> {
    const endpoint = "GET /repos/{owner}/{repo}/issues/comments/{comment_id}";
    const data = await undefinedIfMissing(this.#api.call(endpoint, { comment_id: commentId }));
    return data && readComment(data, this.#identity);
  }

  async createComment(number: number, body: CommentBody, priority?: RequestPriority): Promise<Comment> {
    const endpoint = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments";
    const prepare = () => this.#prepareBody(body);
    const data = await this.#api.call(endpoint, { issue_number: number, body: "" }, { priority, prepare });
    return { ...(await readComment(data, this.#identity)), own: true };
  }

  async updateComment(commentId: number, body: CommentBody, priority?: RequestPriority): Promise<Comment> {
    const endpoint = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}";
    const prepare = () => this.#prepareBody(body);
    const data = await this.#api.call(endpoint, { comment_id: commentId, body: "" }, { priority, prepare });
    return { ...(await readComment(data, this.#identity)), own: true };
  }

  async deleteComment(commentId: number): Promise<void> {
    await this.#api.call("DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}", { comment_id: commentId });
  }

  async #prepareBody(body: CommentBody): Promise<{ body: string }> {
    return { body: this.#redact(typeof body === "string" ? body : await body()) };
  }

  async addReaction(commentId: number, content: ReactionContent): Promise<void> {
    const endpoint = "POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions";
    await this.#api.call(endpoint, { comment_id: commentId, content }, reactionOptions);
  }

  async addIssueReaction(number: number, content: ReactionContent): Promise<void> {
    const endpoint = "POST /repos/{owner}/{repo}/issues/{issue_number}/reactions";
    await this.#api.call(endpoint, { issue_number: number, content }, reactionOptions);
  }

  async addLabels(number: number, labels: string[]): Promise<string[]> {
    const endpoint = "POST /repos/{owner}/{repo}/issues/{issue_number}/labels";
    const data = await this.#api.call(endpoint, { issue_number: number, labels: labels.map(this.#redact) });
    return data.map((label) => label.name);
  }

  async commentOnFile(path: string, { name, body }: Parameters<GitHub["commentOnFile"]>[1]): Promise<void> {
    const [latest] = await this.#api.call("GET /repos/{owner}/{repo}/commits", { path, per_page: 1 });
    if (!latest) return;
    const commit = { commit_sha: latest.sha };
    const pages = await this.#api.callPages("GET /repos/{owner}/{repo}/commits/{commit_sha}/comments", commit);
    const login = await this.ownLogin();
    if (pages.flat().some((comment) => comment.user?.login === login && hasMarker(comment.body, name))) return;
    const text = { body: `${this.#redact(body)}\n\n${markerOf(name)}` };
    await this.#api.call("POST /repos/{owner}/{repo}/commits/{commit_sha}/comments", { ...commit, ...text });
  }

  async listMinimizedComments(thread: { number: number; isPullRequest: boolean }): Promise<number[]> {
    return readMinimizedComments(this.#api, thread);
  }

  findLinkedIssues(text: string): number[] {
    return findLinkedIssues(text, { ...this.#tokens.nameOf(this.repository), webUrl: this.#webUrl });
  }

  findAttachments(text: string): { name: string; url: string }[] {
    return findAttachments(text, { webUrl: this.#webUrl });
  }

  async downloadAttachment(
    url: string,
    { thread, ...options }: Parameters<GitHub["downloadAttachment"]>[1],
  ): Promise<Buffer> {
    const webUrl = this.#webUrl;
    const source = { webUrl, createToken: () => this.#tokens.get(this.repository, "read") };
    try {
      return await downloadAttachment(url, source, options);
    } catch (error) {
      if (!(error instanceof HiddenAttachmentError)) throw error;
      const html = this.#renderedThreads.getOrInsertComputed(thread, () => renderThread(this.#api, thread));
      const signed = findSignedUrl(url, await html, { webUrl });
      if (signed === undefined) throw error;
      return downloadAttachment(signed, source, options);
    }
  }

  async getPullRequest(number: number): Promise<PullRequest | undefined> {
    const endpoint = "GET /repos/{owner}/{repo}/pulls/{pull_number}";
    const data = await undefinedIfMissing(this.#api.call(endpoint, { pull_number: number }));
    return data && this.#readPullRequest(data);
  }

  wasViaApp(number: number, action: ThreadAction): Promise<boolean | undefined> {
    return readWasViaApp(this.#api, number, action);
  }

  lastStateChange(number: number): Promise<StateChange | undefined> {
    return readStateChange(this.#api, number);
  }

  async findPullRequest(branch: string): Promise<PullRequest | undefined> {
    const head = `${this.#tokens.nameOf(this.repository).owner}:${branch}`;
    const data = await this.#api.call("GET /repos/{owner}/{repo}/pulls", { head, state: "all", per_page: 100 });
    // A server that ignores `head` also returns pull requests of other people.
    const own = data.find((pull) => pull.head.ref === branch && pull.head.repo?.id === pull.base.repo.id);
    return own && this.#readPullRequest(own);
  }

  async createPullRequest({ title, body, ...pull }: Parameters<GitHub["createPullRequest"]>[0]): Promise<PullRequest> {
    const text = { title: this.#redact(title), body: this.#redact(body) };
    try {
      return readPullRequest(await this.#api.call("POST /repos/{owner}/{repo}/pulls", { ...pull, ...text }));
    } catch (error) {
      if (pull.draft && hasNoDrafts(error)) return this.createPullRequest({ title, body, ...pull, draft: false });
      if (mayNotOpenPullRequests(error))
        throw new GitHubRefusalError(pullRequestSetting, { status: 403, cause: error });
      if (!isInvalidBase(error)) throw error;
      const { owner, repo } = this.repository;
      const missing = `Branch ${pull.base} not found in ${owner}/${repo} (422).`;
      throw new GitHubRefusalError(missing, { status: 422, cause: error });
    }
  }

  async updatePullRequest(
    number: number,
    { title, body }: Parameters<GitHub["updatePullRequest"]>[1],
  ): Promise<PullRequest> {
    const text = {
      ...(title === undefined ? {} : { title: this.#redact(title) }),
      ...(body === undefined ? {} : { body: this.#redact(body) }),
    };
    const endpoint = "PATCH /repos/{owner}/{repo}/pulls/{pull_number}";
    return readPullRequest(await this.#api.call(endpoint, { pull_number: number, ...text }));
  }

  async markReadyForReview(number: number): Promise<void> {
    const endpoint = "GET /repos/{owner}/{repo}/pulls/{pull_number}";
    const { node_id: id, draft } = await this.#api.call(endpoint, { pull_number: number });
    // REST has no equivalent.
    if (draft) await this.#api.mutate("markPullRequestReadyForReview", { pullRequestId: id });
  }

  async listChangedFiles(number: number): Promise<string[]> {
    const endpoint = "GET /repos/{owner}/{repo}/pulls/{pull_number}/files";
    const pages = await this.#api.callPages(endpoint, { pull_number: number });
    return pages.flat().map(({ filename }) => filename);
  }

  async listPullRequestsInto(base: string): Promise<number[]> {
    const pages = await this.#api.callPages("GET /repos/{owner}/{repo}/pulls", { state: "open", base });
    return pages.flat().map(({ number }) => number);
  }

  async countOwnPullRequests(): Promise<number> {
    const [own, pages] = await Promise.all([
      this.ownLogin(),
      this.#api.callPages("GET /repos/{owner}/{repo}/pulls", { state: "open" }),
    ]);
    // In a job of GitHub Actions, other workflows have the same login.
    return pages.flat().filter(({ user, head }) => user?.login === own && isRunBranch(head.ref)).length;
  }

  async listReviewComments(number: number): Promise<ReviewComment[]> {
    const endpoint = "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments";
    return (await this.#api.callPages(endpoint, { pull_number: number })).flat().map(readReviewComment);
  }

  async listReviews(number: number): Promise<Review[]> {
    return readReviews(this.#api, number);
  }

  async createReview(
    number: number,
    { body, comments, ...review }: Parameters<GitHub["createReview"]>[1],
  ): Promise<{ id: number; url: string }> {
    const redacted = comments.map((comment) => ({ ...comment, body: this.#redact(comment.body) }));
    return postReview(this.#api, number, { ...review, body: this.#redact(body), comments: redacted });
  }

  async dismissReview(number: number, reviewId: number, message: string): Promise<void> {
    const endpoint = "PUT /repos/{owner}/{repo}/pulls/{pull_number}/reviews/{review_id}/dismissals";
    const dismissal = { pull_number: number, review_id: reviewId, message: this.#redact(message) };
    try {
      // After a lost response, GitHub would refuse to dismiss the review a second time.
      await this.#api.call(endpoint, dismissal, { maxRetries: 0 });
    } catch (error) {
      if (httpStatusOf(error) !== 422) throw error;
      const refusal = `GitHub does not let this app dismiss review ${reviewId} (422).`;
      throw new GitHubRefusalError(refusal, { status: 422, cause: error });
    }
  }

  async listReviewThreads(number: number): Promise<ReviewThread[]> {
    return readReviewThreads(this.#api, number);
  }

  async setThreadResolved(threadId: string, resolved: boolean): Promise<void> {
    await this.#api.mutate(resolved ? "resolveReviewThread" : "unresolveReviewThread", { threadId });
  }

  async requestReviewers(number: number, reviewers: string[]): Promise<void> {
    const endpoint = "POST /repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers";
    try {
      await this.#api.call(endpoint, { pull_number: number, reviewers });
    } catch (error) {
      if (httpStatusOf(error) !== 422) throw error;
      const message = `GitHub does not accept these reviewers: ${reviewers.join(", ")} (422).`;
      throw new GitHubRefusalError(message, { status: 422, cause: error });
    }
  }

  async readDiff(number: number): Promise<PullRequestFile[]> {
    const endpoint = "GET /repos/{owner}/{repo}/pulls/{pull_number}/files";
    const pages = await this.#api.callPages(endpoint, { pull_number: number });
    return pages.flat().map(({ filename, patch }) => ({ path: filename, patch }));
  }

  async comparePaths(base: string, head: string): Promise<string[] | undefined> {
    const endpoint = "GET /repos/{owner}/{repo}/compare/{basehead}";
    const found = await undefinedIfMissing(this.#api.call(endpoint, { basehead: `${base}...${head}` }));
    // The files are those changed since the merge base, so after a forced push what was taken back is not among them.
    if (!found || !["ahead", "identical"].includes(found.status)) return undefined;
    const { files = [] } = found;
    return files.length < maxComparedFiles ? files.map(({ filename }) => filename) : undefined;
  }

  async replyToReviewComment(number: number, reviewCommentId: number, body: string): Promise<{ id: number }> {
    const endpoint = "POST /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies";
    const reply = { pull_number: number, comment_id: reviewCommentId, body: this.#redact(body) };
    const { id } = await this.#api.call(endpoint, reply);
    return { id: Number(id) };
  }

  async readChecks(ref: string): Promise<CommitChecks> {
    const { owner, repo } = this.#tokens.nameOf(this.repository);
    const found = await readCommitChecks(this.#api, { ref, isOwn: this.#identity.isOwnCheck }).catch((cause) => {
      if (httpStatusOf(cause) !== 422) throw cause;
      const name = ref.replace(/^heads\//, "");
      throw new GitHubRefusalError(`Commit or branch ${name} not found in ${owner}/${repo} (422).`, {
        status: 422,
        cause,
      });
    });
    const redacted = (check: Check) => ({ ...check, summary: check.summary && this.#redact(check.summary) });
    return { ...found, checks: found.checks.map(redacted) };
  }

  createCheckRun(run: NewCheckRun): Promise<void> {
    const annotations = run.annotations.map((one) => ({ ...one, message: this.#redact(one.message) }));
    return postCheckRun(this.#api, { ...run, summary: this.#redact(run.summary), annotations });
  }

  listRequiredChecks(branch: string): Promise<string[]> {
    return readRequiredChecks(this.#api, branch);
  }

  async listAnnotations(checkId: number): Promise<CheckAnnotation[]> {
    const annotations = await readAnnotations(this.#api, checkId);
    return annotations.map((one) => ({ ...one, message: this.#redact(one.message) }));
  }

  async readJobLog(jobId: number): Promise<string | undefined> {
    const log = await readJobLog(this.#api, jobId);
    return log && this.#redact(log);
  }

  async readFile(
    path: string,
    { maxAgeMs = defaultMaxAgeMs }: { maxAgeMs?: number } = {},
  ): Promise<string | undefined> {
    if (path.startsWith(".github/")) {
      return this.#dotGitHub.readFile({ api: this.#api, repository: this.repository, path, maxAgeMs });
    }
    const data = await undefinedIfMissing(this.#api.readContents(path));
    if (!data) return undefined;
    if (Array.isArray(data) || data.type !== "file") {
      throw new UserError(`${path} is not a file on the default branch of this repository, so it cannot be read.`);
    }
    assertReadableSize(path, data.size);
    // A file above one megabyte comes without its content.
    const { content, encoding } =
      data.encoding === "base64" && data.content !== ""
        ? data
        : await this.#api.call("GET /repos/{owner}/{repo}/git/blobs/{file_sha}", { file_sha: data.sha });
    return Buffer.from(content, encoding === "base64" ? "base64" : "utf8").toString("utf8");
  }

  async listNames(path: string, { maxAgeMs = defaultMaxAgeMs }: { maxAgeMs?: number } = {}): Promise<string[]> {
    if (path.startsWith(".github/")) {
      return this.#dotGitHub.listNames({ api: this.#api, repository: this.repository, path, maxAgeMs });
    }
    const data = await undefinedIfMissing(this.#api.readContents(path));
    return Array.isArray(data) ? data.map(({ name }) => name) : [];
  }

  async createGitToken(access: "read" | "write", rejected?: string): Promise<string> {
    const token = await this.#tokens.get(this.repository, access);
    if (token !== rejected) return token;
    this.#tokens.discard(this.repository);
    return this.#tokens.get(this.repository, access);
  }

  createCommit(commit: NewCommit): Promise<string> {
    return createSignedCommit(this.#api, commit);
  }

  /** Reads a pull request, unless it belongs to another repository that took over the name. */
  #readPullRequest(data: PullRequestData): PullRequest | undefined {
    const { repositoryId } = this.repository;
    if (repositoryId !== undefined && data.base.repo.id !== repositoryId) return undefined;
    return readPullRequest(data);
  }
}

/** The instructions for a repository in which jobs may not open pull requests. */
export const pullRequestSetting =
  'This repository does not let GitHub Actions open pull requests. An administrator can turn on "Allow GitHub Actions to create and approve pull requests" under Settings → Actions → General → Workflow permissions.';
