import { UserError } from "#domain/errors.ts";
import type { GitHubSnapshot, SnapshotComment, SnapshotThread } from "#playground/github/snapshot.ts";
import type { Playground } from "./start-playground.ts";

const timeoutMs = 5 * 60_000;
const reviewedLine = 1;
const review = {
  event: "REQUEST_CHANGES",
  body: "One thing before I merge this.",
  comments: [
    {
      path: "src/paginate.js",
      line: reviewedLine,
      body: "Please say in this comment what happens after a full last page.",
    },
  ],
} as const;

type Pull = SnapshotThread & { pull: NonNullable<SnapshotThread["pull"]> };

/**
 * Plays one issue from `/run fixer` to the merge: approves the bot's requests as the maintainer, lets it repair CI, reviews
 * the pull request, and merges it. Prints every comment as it appears or changes. Throws a UserError if the story does not
 * finish.
 */
export async function playStory(playground: Playground, print: (text: string) => void): Promise<void> {
  const failed = playground.app.failed.then((how) => {
    throw new UserError(`The app stopped in the middle of the story: ${how}.`);
  });
  await Promise.race([failed, new Story(playground, print).play()]);
}

class Story {
  readonly #playground: Playground;
  readonly #print: (text: string) => void;
  /** The printed text of each comment, by the comment's id. */
  readonly #printed = new Map<number, string>();
  readonly #approved = new Set<string>();

  constructor(playground: Playground, print: (text: string) => void) {
    this.#playground = playground;
    this.#print = print;
  }

  async play(): Promise<void> {
    const { github, issue, notice } = this.#playground;
    const maintainer = github.as("maintainer");
    const [repository] = Object.values(await github.snapshot());
    const opened = repository?.issues.find(({ number }) => number === issue.number);
    this.#print(notice);
    this.#print(heading(`visitor opened issue #${issue.number}: ${opened?.title}`));
    this.#print(indent(opened?.body ?? ""));
    maintainer.comment(issue.number, "/run fixer");

    const { number, title, pull, body } = await this.#until(({ pull }) => pull !== undefined);
    this.#print(heading(`Pull request #${number}: ${title}${pull.draft ? " (draft)" : ""}`));
    this.#print(indent(plain(body)));

    this.#print(heading("CI fails: CHANGELOG.md is missing a line"));
    await this.#until(({ pull: { head } }) => this.#hasPassed(head));
    this.#print(heading("CI passes"));

    await maintainer.review(number, review);
    this.#print(heading("maintainer requests changes"));
    this.#print(indent(`${review.body}\n${review.comments[0].path}:${reviewedLine}: ${review.comments[0].body}`));
    const answered = await this.#until(({ pull: { reviews } }) =>
      reviews.some(({ comments }) => comments.some(({ inReplyTo, author }) => inReplyTo && author === github.botLogin)),
    );
    for (const { comments } of answered.pull.reviews) for (const comment of comments) this.#show(comment);

    maintainer.markReady(number);
    await maintainer.merge(number);
    await this.#until(({ comments }) => comments.some(({ body: text }) => /was merged by/.test(text)));
    this.#print(heading("The merged change"));
    this.#print(await github.diff(`${pull.base}^`, pull.base));
  }

  #hasPassed(branch: string): boolean {
    const { checkSuites, checkRuns } = this.#playground.github.repository();
    const newest = checkSuites.findLast((suite) => suite.branch === branch);
    const runs = checkRuns.filter(({ suite }) => suite === newest);
    return runs.length > 0 && runs.every(({ conclusion }) => conclusion === "success");
  }

  /** Resolves to the pull request once it matches. Meanwhile prints comments and approves every request. */
  #until(matches: (pull: Pull) => boolean): Promise<Pull> {
    return this.#playground.github.until(
      (snapshot) => {
        const pull = this.#follow(snapshot);
        return pull && matches(pull) ? pull : undefined;
      },
      { timeoutMs, onTimeout: () => new UserError(`The story did not finish within ${timeoutMs / 60_000} minutes.`) },
    );
  }

  #follow(snapshot: GitHubSnapshot): Pull | undefined {
    const { issues = [], pulls = [] } = Object.values(snapshot)[0] ?? {};
    for (const { number, comments } of [...issues, ...pulls]) {
      for (const comment of comments) this.#show(comment);
      for (const comment of comments.filter(({ author }) => author === this.#playground.github.botLogin)) {
        this.#assertNotFailed(comment);
        this.#approve(number, comment);
      }
    }
    const last = pulls.at(-1);
    return last?.pull && { ...last, pull: last.pull };
  }

  #assertNotFailed({ body }: SnapshotComment): void {
    const [, outcome] = /^### (❌|🛑|⏹️) \*\*\S+\*\*/u.exec(body) ?? [];
    if (outcome !== undefined) throw new UserError("The worker ended without a merged pull request.");
  }

  #show({ id, author, body }: SnapshotComment): void {
    const text = plain(body);
    const before = this.#printed.get(id);
    if (before === text) return;
    this.#printed.set(id, text);
    if (before === undefined) {
      this.#print(heading(`${author} commented`));
      this.#print(indent(text));
      return;
    }
    const known = new Set(before.split("\n"));
    const added = text.split("\n").filter((line) => line.trim() !== "" && !known.has(line));
    if (added.length > 0) this.#print(`${heading(`${author} edited a comment`)}\n${indent(added.join("\n"))}`);
  }

  #approve(thread: number, { body }: SnapshotComment): void {
    const [, id] = /asks for approval `([^`]+)`/.exec(body) ?? [];
    if (!id || this.#approved.has(id)) return;
    this.#approved.add(id);
    this.#playground.github.as("maintainer").comment(thread, `/approve ${id}`);
  }
}

/** Formats a comment for a terminal, without the text that Markdown hides. */
function plain(body: string): string {
  return body
    .replace(/<!--[\s\S]*?-->/g, "")
    .replace(/<\/?(?:details|summary|sub)>/g, "")
    .replace(/\\([\\`*_{}[\]()#+!|~$-])/g, "$1")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}

function heading(text: string): string {
  return `\n── ${text}`;
}

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, "   ");
}
