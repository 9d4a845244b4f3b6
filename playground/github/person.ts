import { attachFile } from "./attachments.ts";
import { mergePullRequest, type PullMergeInput } from "./merge-actions.ts";
import {
  changeBase,
  findPull,
  openPullRequest,
  type PullRequestOptions,
  requestReviewers,
  setDraft,
} from "./pull-request-actions.ts";
import { ApiError, notFound, orNotFound } from "./rest/api-error.ts";
import {
  addReviewComment,
  createReview,
  dismissReview,
  editReview,
  type NewReview,
  type ReviewCommentInput,
  replyToReviewComment,
  resolveReviewThread,
} from "./review-actions.ts";
import {
  type ActionContext,
  addComment,
  addLabels,
  assign,
  deleteComment,
  deleteReviewComment,
  editComment,
  lockThread,
  openIssue,
  removeLabel,
  updateThread,
} from "./user-actions.ts";
import {
  appNamed,
  nameKey,
  type PullThread,
  permissionIn,
  type Repository,
  type StoredComment,
  type StoredReview,
  type StoredReviewComment,
  type Thread,
  type User,
  type World,
} from "./world.ts";

/** A user who acts in a repository, through the web page or through an app that has their token. Throws an ApiError for actions that GitHub would not allow. */
export class Person {
  readonly login: string;
  readonly #context: ActionContext;
  readonly #canWrite: boolean;

  constructor(world: World, repository: Repository, login: string, app?: string) {
    const user = world.users.get(nameKey(login));
    if (!user) throw new ApiError(404, `There is no user called ${login}.`);
    const permission = permissionIn(repository, login);
    if (permission === "none") throw notFound();

    this.login = user.login;
    this.#context = { world, repository, actor: user, ...(app !== undefined && { app: appNamed(world, app) }) };
    this.#canWrite = permission !== "read" && permission !== "triage";
  }

  /** Uploads a file and returns its Markdown, which can be written into any text. */
  attach(name: string, content: string | Uint8Array): string {
    const { world, repository } = this.#context;
    return attachFile(world, repository, { name, content: Buffer.from(content) });
  }

  openIssue(issue: { title: string; body?: string; labels?: string[] }): Thread {
    return openIssue(this.#context, issue);
  }

  /** Comments on an issue or a pull request; `app` is an app that posts with this person's token. */
  comment(number: number, body: string, { app }: { app?: string } = {}): StoredComment {
    const thread = this.#thread(number);
    if (thread.locked && !this.#canWrite) throw new ApiError(403, "This conversation is locked.");
    const context = app ? { ...this.#context, app: appNamed(this.#context.world, app) } : this.#context;
    return addComment(context, thread, body);
  }

  editComment(id: number, body: string): void {
    editComment(this.#context, this.#mayChange(this.#find(this.#repository.comments, id)), body);
  }

  deleteComment(id: number): void {
    deleteComment(this.#context, this.#mayChange(this.#find(this.#repository.comments, id)));
  }

  deleteReviewComment(id: number): void {
    deleteReviewComment(this.#context, this.#mayChange(this.#find(this.#repository.reviewComments, id)));
  }

  editThread(number: number, change: { title?: string; body?: string }): void {
    updateThread(this.#context, this.#mayChange(this.#thread(number)), change);
  }

  close(number: number): void {
    updateThread(this.#context, this.#mayChange(this.#thread(number)), { state: "closed" });
  }

  reopen(number: number): void {
    updateThread(this.#context, this.#mayChange(this.#thread(number)), { state: "open" });
  }

  /** Locks a conversation. */
  lock(number: number): void {
    this.#requireWrite();
    lockThread(this.#context, this.#thread(number));
  }

  label(number: number, ...names: string[]): void {
    this.#requireWrite();
    addLabels(this.#context, this.#thread(number), names);
  }

  /** Assigns an issue or a pull request to a user. Apps cannot be assigned. */
  assign(number: number, login: string): void {
    this.#requireWrite();
    assign(this.#context, this.#thread(number), this.#user(login));
  }

  unlabel(number: number, name: string): void {
    this.#requireWrite();
    removeLabel(this.#context, this.#thread(number), name);
  }

  openPullRequest(options: PullRequestOptions): Promise<PullThread> {
    return openPullRequest(this.#context, options);
  }

  review(pull: number, review: NewReview): Promise<StoredReview> {
    return createReview(this.#context, this.#pull(pull), review);
  }

  /** Comments on one line of a pull request, outside a review. */
  reviewComment(pull: number, comment: ReviewCommentInput): Promise<StoredReviewComment> {
    return addReviewComment(this.#context, this.#pull(pull), comment);
  }

  reply(reviewComment: number, body: string): StoredReviewComment {
    const parent = this.#find(this.#repository.reviewComments, reviewComment);
    return replyToReviewComment(this.#context, this.#pull(parent.thread), parent, body);
  }

  resolve(reviewComment: number, resolved = true): void {
    const comment = this.#mayChange(this.#find(this.#repository.reviewComments, reviewComment));
    resolveReviewThread(this.#context, this.#pull(comment.thread), comment, resolved);
  }

  editReview(review: number, body: string): void {
    const found = this.#mayChange(this.#find(this.#repository.reviews, review));
    editReview(this.#context, this.#pull(found.thread), found, body);
  }

  dismissReview(review: number, message: string): void {
    this.#requireWrite();
    const found = this.#find(this.#repository.reviews, review);
    dismissReview(this.#context, this.#pull(found.thread), found, message);
  }

  requestReview(pull: number, ...logins: string[]): void {
    this.#requireWrite();
    requestReviewers(
      this.#context,
      this.#pull(pull),
      logins.map((login) => this.#user(login)),
    );
  }

  markReady(pull: number): void {
    setDraft(this.#context, this.#mayChange(this.#pull(pull)), false);
  }

  convertToDraft(pull: number): void {
    setDraft(this.#context, this.#mayChange(this.#pull(pull)), true);
  }

  /** Changes the base branch of a pull request. */
  retarget(pull: number, base: string): Promise<void> {
    return changeBase(this.#context, this.#mayChange(this.#pull(pull)), base);
  }

  merge(pull: number, options?: PullMergeInput): Promise<string> {
    this.#requireWrite();
    return mergePullRequest(this.#context, this.#pull(pull), options);
  }

  get #repository(): Repository {
    return this.#context.repository;
  }

  #thread(number: number): Thread {
    return this.#find(this.#repository.threads, number);
  }

  #pull(number: number): PullThread {
    return orNotFound(findPull(this.#repository, number));
  }

  #user(login: string): User {
    const user = this.#context.world.users.get(nameKey(login));
    if (!user) throw new ApiError(422, `Could not resolve to a User with the login of '${login}'.`);
    return user;
  }

  #find<T>(all: ReadonlyMap<number, T>, id: number): T {
    return orNotFound(all.get(id));
  }

  #requireWrite(): void {
    if (!this.#canWrite) throw new ApiError(403, `${this.login} has no write access.`);
  }

  #mayChange<T extends { author: User }>(thing: T): T {
    if (thing.author === this.#context.actor || this.#canWrite) return thing;
    throw new ApiError(403, `${this.login} may not change what somebody else wrote.`);
  }
}
