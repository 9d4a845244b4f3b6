import type { Comment, GitHub, Issue, Permission, PullRequest } from "#domain/github.ts";

export interface FakeGitHubOptions {
  cloneUrl?: string;
  defaultBranch?: string;
  issue?: Partial<Issue>;
  permissions?: Record<string, Permission>;
  private?: boolean;
  /** Files of the default branch, such as `.github/workers/tester.worker`. */
  files?: Record<string, string>;
}

/** An in-memory implementation of `GitHub`. What a run posts is in `comments` and `pulls`. */
export function fakeGitHub(options: FakeGitHubOptions = {}) {
  const issue: Issue = {
    number: 7,
    title: "Totals are off by one",
    body: "sum([1, 2]) gives 2.",
    author: "visitor",
    state: "open",
    locked: false,
    labels: [],
    isPullRequest: false,
    ...options.issue,
  };
  const comments: Comment[] = [];
  const pulls: PullRequest[] = [];
  const permissions: Record<string, Permission> = { ada: "write", ...options.permissions };
  const files = options.files ?? {};

  const github: GitHub = {
    repository: { installationId: 1, owner: "octo", repo: "sums" },
    ownLogin: async () => "golem-forge[bot]",
    isPerson: async (login) => login in permissions,
    getPermission: async (login) => permissions[login] ?? "none",
    confirmPermission: async (login) => permissions[login] ?? "none",
    findAccount: async (login) => (login in permissions ? { login, id: accountId(login) } : undefined),
    isTeamMember: async () => false,
    getRepository: async () => ({
      owner: "octo",
      repo: "sums",
      defaultBranch: options.defaultBranch ?? "main",
      private: options.private ?? false,
      cloneUrl: options.cloneUrl ?? "http://127.0.0.1:9/octo/sums.git",
    }),
    wasViaApp: async () => false,
    getIssue: async (number) => (number === issue.number ? issue : undefined),
    listIssues: async () => [issue],
    listComments: async () => comments,
    getComment: async (id) => comments.find((one) => one.id === id),
    listMinimizedComments: async () => [],
    findLinkedIssues: () => [],
    createCheckRun: async () => {},
    commentOnFile: async () => {},
    findAttachments: () => [],
    downloadAttachment: async () => Buffer.from(""),
    createComment: async (_number, body) => {
      const at = new Date();
      const comment = {
        id: comments.length + 1,
        body: typeof body === "string" ? body : await body(),
        author: "golem-forge[bot]",
        createdAt: at,
        updatedAt: at,
        own: true,
      };
      comments.push(comment);
      return comment;
    },
    getCloneUrl: async () => options.cloneUrl ?? "http://127.0.0.1:9/octo/sums.git",
    updateComment: async (id, body) => {
      const comment = comments.find((one) => one.id === id);
      if (!comment) throw new Error(`no comment ${id}`);
      return Object.assign(comment, { body: typeof body === "string" ? body : await body(), updatedAt: new Date() });
    },
    deleteComment: async (id) => {
      comments.splice(0, comments.length, ...comments.filter((one) => one.id !== id));
    },
    addReaction: async () => {},
    addIssueReaction: async () => {},
    addLabels: async (_number, labels) => labels,
    getPullRequest: async (number) => pulls.find((pull) => pull.number === number),
    lastStateChange: async () => undefined,
    findPullRequest: async (branch) => pulls.find((pull) => pull.head.branch === branch),
    createPullRequest: async ({ head, base, title, body, draft }) => {
      const number = 8 + pulls.length;
      const pull: PullRequest = {
        number,
        url: `http://127.0.0.1:9/octo/sums/pull/${number}`,
        title,
        body,
        state: "open",
        merged: false,
        draft,
        head: { branch: head, commit: "", fromFork: false },
        base: { branch: base, commit: "" },
      };
      pulls.push(pull);
      return pull;
    },
    updatePullRequest: async (number, change) => {
      const pull = pulls.find((one) => one.number === number);
      if (!pull) throw new Error(`no pull request ${number}`);
      return Object.assign(pull, change);
    },
    markReadyForReview: async (number) => {
      const pull = pulls.find((one) => one.number === number);
      if (pull) pull.draft = false;
    },
    listChangedFiles: async () => [],
    listPullRequestsInto: async (base) =>
      pulls.filter((pull) => pull.state === "open" && pull.base.branch === base).map(({ number }) => number),
    countOwnPullRequests: async () => pulls.filter(({ state }) => state === "open").length,
    listReviewComments: async () => [],
    listReviews: async () => [],
    createReview: async () => ({ id: 1, url: "" }),
    dismissReview: async () => {},
    listReviewThreads: async () => [],
    setThreadResolved: async () => {},
    requestReviewers: async () => {},
    readDiff: async () => [],
    comparePaths: async () => [],
    replyToReviewComment: async () => ({ id: 1 }),
    readChecks: async () => ({ checks: [], unfinished: [], missingPermissions: [] }),
    listRequiredChecks: async () => [],
    listAnnotations: async () => [],
    readJobLog: async () => undefined,
    readFile: async (path) => files[path],
    listNames: async (folder) =>
      Object.keys(files).flatMap((path) => (path.startsWith(`${folder}/`) ? [path.slice(folder.length + 1)] : [])),
    createGitToken: async () => "token",
    createCommit: async () => {
      throw new Error("This GitHub creates no commits.");
    },
  };
  return { github, issue, comments, pulls, permissions };
}

/** Returns the account id of a person in tests. */
export function accountId(login: string): number {
  return [...login].reduce((id, letter) => id * 31 + letter.charCodeAt(0), 0);
}
