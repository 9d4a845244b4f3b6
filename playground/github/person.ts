import { ApiError, notFound } from "./rest/api-error.ts";
import {
  type ActionContext,
  addComment,
  addReaction,
  addReviewComment,
  editComment,
  openIssue,
  updateThread,
} from "./user-actions.ts";
import {
  nameKey,
  permissionIn,
  type Reaction,
  type Repository,
  type StoredComment,
  type Thread,
  type World,
} from "./world.ts";

/** Someone with an account, acting through the web page or a test. Every method does what GitHub would let them do. */
export interface Person {
  readonly login: string;
  openIssue(issue: { title: string; body?: string }): Thread;
  comment(thread: number, body: string): StoredComment;
  editComment(comment: number, body: string): void;
  editThread(thread: number, change: { title?: string; body?: string }): void;
  close(thread: number): void;
  reopen(thread: number): void;
  react(comment: number, content: Reaction["content"]): void;
  reviewComment(pull: number, comment: { path: string; line: number; body: string }): { id: number };
}

/** Lets a person act in a repository. Throws an ApiError for what they may not do. */
export function actAs({ world, repository, login }: { world: World; repository: Repository; login: string }): Person {
  const user = world.users.get(nameKey(login));
  if (!user) throw new ApiError(404, `There is nobody called ${login} here.`);
  const permission = permissionIn(repository, login);
  if (permission === "none") throw notFound();

  const context: ActionContext = { world, repository, actor: user };
  const maintains = permission !== "read";

  function find<T extends Thread | StoredComment>(all: Map<number, T>, id: number): T {
    const found = all.get(id);
    if (!found) throw notFound();
    return found;
  }

  function own<T extends Thread | StoredComment>(thing: T): T {
    if (thing.author === user || maintains) return thing;
    throw new ApiError(403, `${login} may not change what somebody else wrote.`);
  }

  return {
    login: user.login,
    openIssue: (issue) => openIssue(context, issue),
    comment: (number, body) => {
      const thread = find(repository.threads, number);
      if (thread.locked && !maintains) throw new ApiError(403, "This conversation is locked.");
      return addComment(context, thread, body);
    },
    editComment: (id, body) => editComment(context, own(find(repository.comments, id)), body),
    editThread: (number, change) => updateThread(context, own(find(repository.threads, number)), change),
    close: (number) => updateThread(context, own(find(repository.threads, number)), { state: "closed" }),
    reopen: (number) => updateThread(context, own(find(repository.threads, number)), { state: "open" }),
    react: (id, content) => void addReaction(context, find(repository.comments, id), content),
    reviewComment: (number, { body, path, line }) => {
      const thread = find(repository.threads, number);
      if (!thread.pull) throw notFound();
      const commit = thread.pull.head.commit;
      return addReviewComment(context, thread, { body, path, line, commit, diffHunk: "", inReplyTo: undefined });
    },
  };
}
