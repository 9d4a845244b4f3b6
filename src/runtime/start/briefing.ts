import { type Comment, canWrite, type GitHub, type Issue } from "#domain/github.ts";
import { cleanText, wrapUntrusted } from "#text/untrusted.ts";

/** Characters of an issue's text and of all its comments that a worker starts with; tools read the rest. */
const longestBody = 20_000;
const longestLabels = 1_000;
const longestThread = 20_000;
const mostComments = 100;

/**
 * What a worker reads before its task: the issue and what people with write access and others said in it so far. All of
 * it is data, whoever wrote it; commands come by other ways.
 */
export async function briefing(github: GitHub, issue: Issue, before: Date): Promise<string> {
  const kind = issue.isPullRequest ? "Pull request" : "Issue";
  const head = `${kind} #${issue.number}, opened by @${issue.author}`;
  const labels = issue.labels.length > 0 ? `\n\nLabels: ${issue.labels.join(", ")}` : "";
  const body = wrapUntrusted(
    cut(`${issue.title}\n\n${issue.body}`, longestBody) + cut(labels, longestLabels),
    `${kind.toLowerCase()} #${issue.number}`,
  );
  const comments = await earlierComments(github, issue, before);
  return [head, body, ...comments].join("\n\n");
}

/** Comments written or edited after the command was given are left out: they were not what the person saw. */
async function earlierComments(github: GitHub, { number }: Issue, before: Date): Promise<string[]> {
  const comments = (await github.listComments(number)).filter((comment) => !comment.own && comment.updatedAt < before);
  const texts: string[] = [];
  const standings = new Map<string, Promise<string>>();
  let room = longestThread;
  for (const comment of comments.slice(-mostComments).toReversed()) {
    const text = cut(comment.body, Math.max(0, room));
    room -= text.length;
    if (room < 0) break;
    const standing = standings.get(comment.author) ?? standingOf(github, comment);
    standings.set(comment.author, standing);
    texts.unshift(wrapUntrusted(text, `comment by @${comment.author}, ${await standing}`));
  }
  const left = comments.length - texts.length;
  return left > 0 ? [`(${left} earlier comments are left out.)`, ...texts] : texts;
}

async function standingOf(github: GitHub, { author }: Comment): Promise<string> {
  return canWrite(await github.getPermission(author)) ? "who has write access" : "who has no write access";
}

function cut(text: string, longest: number): string {
  const { text: clean } = cleanText(text);
  return clean.length <= longest
    ? clean
    : `${clean.slice(0, longest)}\n(cut here: it is ${clean.length} characters long)`;
}
