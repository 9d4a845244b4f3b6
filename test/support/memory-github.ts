import type { Check, Comment, GitHub, Issue, PullRequest, ReviewComment } from "#domain/github.ts";

export interface MemoryGitHubOptions {
  issues?: Partial<Issue>[];
  comments?: Record<number, Partial<Comment>[]>;
  pulls?: Partial<PullRequest>[];
  reviewComments?: ReviewComment[];
  checks?: Record<string, Check[]>;
  /** Whose words may command a worker. */
  writers?: string[];
}

/** A repository on GitHub as plain values, with everything that was written to it in `writes`. */
export function memoryGitHub(options: MemoryGitHubOptions = {}) {
  const writes: { method: string; args: unknown }[] = [];
  const issues: Issue[] = (options.issues ?? []).map((issue, index) => ({
    number: index + 1,
    title: "A title",
    body: "",
    author: "ada",
    state: "open",
    locked: false,
    labels: [],
    isPullRequest: false,
    ...issue,
  }));
  const pulls: PullRequest[] = (options.pulls ?? []).map((pull, index) => newPull({ number: 100 + index, ...pull }));
  const comments = new Map(
    Object.entries(options.comments ?? {}).map(([number, list]) => [
      Number(number),
      list.map((comment, index) => newComment({ id: index + 1, ...comment })),
    ]),
  );
  const reviewComments = [...(options.reviewComments ?? [])];

  const github: Partial<GitHub> = {
    repository: { installationId: 1, owner: "octo", repo: "sums" },
    ownLogin: async () => "golem-forge[bot]",
    getPermission: async (login) => ((options.writers ?? ["ada"]).includes(login) ? "write" : "read"),
    getIssue: async (number) => issues.find((issue) => issue.number === number),
    listIssues: async ({ state = "open", labels = [], limit = 30 }) =>
      issues
        .filter((issue) => state === "all" || issue.state === state)
        .filter((issue) => labels.every((label) => issue.labels.includes(label)))
        .slice(0, limit),
    listComments: async (number) => comments.get(number) ?? [],
    createComment: async (number, body) => {
      writes.push({ method: "createComment", args: { number, body } });
      const comment = newComment({ id: 1_000 + writes.length, body, own: true, author: "golem-forge[bot]" });
      comments.set(number, [...(comments.get(number) ?? []), comment]);
      return comment;
    },
    addLabels: async (number, labels) => {
      writes.push({ method: "addLabels", args: { number, labels } });
      return labels;
    },
    getPullRequest: async (number) => pulls.find((pull) => pull.number === number),
    findPullRequest: async (branch) => pulls.find((pull) => pull.head.branch === branch),
    createPullRequest: async ({ head, base, ...texts }) => {
      writes.push({ method: "createPullRequest", args: { head, base, ...texts } });
      const pull = newPull({
        number: 100 + pulls.length,
        ...texts,
        head: { branch: head, commit: "c", fromFork: false },
      });
      pulls.push(pull);
      return pull;
    },
    updatePullRequest: async (number, change) => {
      writes.push({ method: "updatePullRequest", args: { number, ...change } });
      const pull = pulls.find((candidate) => candidate.number === number);
      if (!pull) throw new Error(`there is no pull request ${number}`);
      return Object.assign(pull, change);
    },
    listReviewComments: async () => reviewComments,
    replyToReviewComment: async (number, reviewCommentId, body) => {
      writes.push({ method: "replyToReview", args: { number, reviewCommentId, body } });
      reviewComments.push({ id: 2_000 + writes.length, path: "a", line: 1, body, author: "golem-forge[bot]" });
      return { id: 2_000 + writes.length };
    },
    listChecks: async (ref) => options.checks?.[ref] ?? [],
  };

  return {
    github: new Proxy(github, {
      get: (known, name) => {
        const found = Reflect.get(known, name);
        if (found === undefined) throw new Error(`this test does not expect ${String(name)} to be asked of GitHub`);
        return found;
      },
    }) as GitHub,
    writes,
    pulls,
  };
}

function newPull(pull: Partial<PullRequest>): PullRequest {
  const number = pull.number ?? 100;
  return {
    number,
    url: `https://github.test/octo/sums/pull/${number}`,
    title: "A pull request",
    body: "",
    state: "open",
    merged: false,
    draft: true,
    head: { branch: "golem/7-run-1", commit: "c".repeat(40), fromFork: false },
    base: { branch: "main", commit: "a".repeat(40) },
    ...pull,
  };
}

function newComment(comment: Partial<Comment>): Comment {
  const at = new Date("2026-01-02T03:04:05Z");
  return { id: 1, body: "", author: "ada", createdAt: at, updatedAt: at, own: false, ...comment };
}
