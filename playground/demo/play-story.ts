import { UserError } from "#domain/errors.ts";
import type { SnapshotComment, SnapshotThread } from "#playground/github/snapshot.ts";
import type { Playground } from "./start-playground.ts";

const timeoutMs = 5 * 60_000;

/**
 * Plays one issue from `/run fixer` to the pull request: approves what the bot asks for as the maintainer, and prints every
 * comment as it appears or changes. Throws a UserError when the story does not reach its end.
 */
export async function playStory(playground: Playground, print: (text: string) => void): Promise<void> {
  await new Story(playground, print).play();
}

class Story {
  readonly #playground: Playground;
  readonly #print: (text: string) => void;
  /** What was printed of each comment, by the comment's id. */
  readonly #printed = new Map<number, string>();
  readonly #approved = new Set<string>();

  constructor(playground: Playground, print: (text: string) => void) {
    this.#playground = playground;
    this.#print = print;
  }

  async play(): Promise<void> {
    const { github, app, issue, notice } = this.#playground;
    const [repository] = Object.values(await github.snapshot());
    const opened = repository?.issues.find(({ number }) => number === issue.number);
    this.#print(notice);
    this.#print(heading(`visitor opened issue #${issue.number}: ${opened?.title}`));
    this.#print(indent(opened?.body ?? ""));
    github.as("maintainer").comment(issue.number, "/run fixer");

    const failed = app.failed.then((how) => {
      throw new UserError(`The app stopped in the middle of the story: ${how}.`);
    });
    const pull = await Promise.race([failed, this.#untilPullRequest()]);
    this.#print(heading(`Pull request #${pull.number}: ${pull.title}${pull.pull?.draft ? " (draft)" : ""}`));
    this.#print(indent(plain(pull.body)));
    if (pull.pull) this.#print(await github.diff(pull.pull.base, pull.pull.head));
  }

  /** The pull request, once the worker has ended. */
  #untilPullRequest(): Promise<SnapshotThread> {
    const { github, issue } = this.#playground;
    return github.until(
      (snapshot) => {
        const [repository] = Object.values(snapshot);
        const comments = repository?.issues.find(({ number }) => number === issue.number)?.comments ?? [];
        return this.#follow(comments, repository?.pulls.at(-1));
      },
      { timeoutMs, onTimeout: () => new UserError(`The story did not finish within ${timeoutMs / 60_000} minutes.`) },
    );
  }

  #follow(comments: SnapshotComment[], pull: SnapshotThread | undefined): SnapshotThread | undefined {
    for (const comment of comments) this.#show(comment);
    const ofBot = comments.filter(({ author }) => author === this.#playground.github.botLogin);
    for (const comment of ofBot) this.#approve(comment);
    const last = ofBot.at(-1)?.body;
    const [, outcome] = /^### (✅|❌|🛑|⏹️) \*\*\S+\*\*/u.exec(last ?? "") ?? [];
    if (pull && outcome === "✅") return pull;
    if (last !== undefined && !last.startsWith("### ")) throw new UserError("The worker did not start.");
    if (outcome !== undefined) throw new UserError("The worker ended without opening a pull request.");
    return undefined;
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

  #approve({ body }: SnapshotComment): void {
    const { github, issue } = this.#playground;
    const [, id] = /asks for approval `([^`]+)`/.exec(body) ?? [];
    if (!id || this.#approved.has(id)) return;
    this.#approved.add(id);
    github.as("maintainer").comment(issue.number, `/approve ${id}`);
  }
}

/** A comment as a terminal shows it, without what Markdown hides. */
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
