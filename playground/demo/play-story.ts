import { UserError } from "#domain/errors.ts";
import type { SnapshotComment, SnapshotThread } from "#playground/github/snapshot.ts";
import type { Playground } from "./start-playground.ts";

type Print = (text: string) => void;

/** The story gives up when nothing happens for so long. */
const timeoutMs = 60_000;

/**
 * Plays one issue from `/run fixer` to the pull request, answers what the bot asks as the maintainer, and prints every
 * comment as it appears or changes. Throws a UserError when the story does not come to its end.
 */
export async function playStory({ github, app, issue, notice }: Playground, print: Print): Promise<void> {
  print(notice);
  const maintainer = github.as("maintainer");
  const printed = new Map<number, string>();
  const approved = new Set<string>();

  const [opened] = await look();
  print(heading(`visitor opened issue #${issue.number}: ${opened?.title}`));
  print(indent(opened?.body ?? ""));
  maintainer.comment(issue.number, "/run fixer");

  const dead = app.ended.then((how) => {
    throw new UserError(`The app stopped in the middle of the story: ${how}.`);
  });
  const pull = await Promise.race([dead, untilPullRequest()]);
  print(heading(`Pull request #${pull.number}: ${pull.title}${pull.pull?.draft ? " (draft)" : ""}`));
  print(indent(plain(pull.body)));
  print(await diffOf(pull));

  async function look(): Promise<[SnapshotThread | undefined, SnapshotThread | undefined]> {
    const [repository] = Object.values(await github.snapshot());
    return [repository?.issues.find(({ number }) => number === issue.number), repository?.pulls.at(-1)];
  }

  /** The pull request, once the bot has said its last word on it. */
  function untilPullRequest(): Promise<SnapshotThread> {
    return new Promise((resolve, reject) => {
      let timer = setTimeout(giveUp, timeoutMs);
      let turn = Promise.resolve();
      const stop = github.watch(() => {
        clearTimeout(timer);
        timer = setTimeout(giveUp, timeoutMs);
        // One look after the other, so that nothing is printed twice.
        turn = turn.then(step).catch((error: unknown) => end(() => reject(error)));
      });
      turn = step().catch((error: unknown) => end(() => reject(error)));

      async function step(): Promise<void> {
        const [thread, proposed] = await look();
        for (const comment of thread?.comments ?? []) show(comment);
        const bot = (thread?.comments ?? []).filter(({ author }) => author === github.botLogin);
        for (const comment of bot) answer(comment);
        const last = bot.at(-1);
        const ended = /^### (?<sign>✅|❌|🛑|⏹️) \*\*\S+\*\*/u.exec(last?.body ?? "");
        if (proposed && ended?.groups?.sign === "✅") end(() => resolve(proposed));
        else if (last && !last.body.startsWith("### ")) end(() => reject(new UserError("The worker did not start.")));
        else if (ended) end(() => reject(new UserError("The worker ended without opening a pull request.")));
      }

      function giveUp(): void {
        end(() => reject(new UserError(`Nothing happened for ${timeoutMs / 1000} seconds, so the story ends here.`)));
      }

      function end(settle: () => void): void {
        clearTimeout(timer);
        stop();
        settle();
      }
    });
  }

  function show({ id, author, body }: SnapshotComment): void {
    const text = plain(body);
    const before = printed.get(id);
    if (before === text) return;
    printed.set(id, text);
    if (before === undefined) {
      print(heading(`${author} commented`));
      print(indent(text));
      return;
    }
    const known = new Set(before.split("\n"));
    const news = text.split("\n").filter((line) => line.trim() !== "" && !known.has(line));
    if (news.length > 0) print(`${heading(`${author} edited a comment`)}\n${indent(news.join("\n"))}`);
  }

  function answer({ body }: SnapshotComment): void {
    const [, id] = /asks for approval `([^`]+)`/.exec(body) ?? [];
    if (!id || approved.has(id)) return;
    approved.add(id);
    maintainer.comment(issue.number, `/approve ${id}`);
  }

  async function diffOf({ pull }: SnapshotThread): Promise<string> {
    return pull ? await github.diff(pull.base, pull.head) : "";
  }
}

/** A comment as a terminal shows it: without what Markdown hides. */
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
