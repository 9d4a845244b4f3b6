import { z } from "zod";
import type { RepositoryApi } from "./repository-api.ts";

/** Finds the issues and pull requests of a repository that a text names: `#12`, `GH-12`, `owner/repo#12` or an address. */
export function findLinkedIssues(text: string, repository: { owner: string; repo: string; webUrl: string }): number[] {
  const [owner, repo, web] = [repository.owner, repository.repo, repository.webUrl].map(RegExp.escape);
  const patterns = [
    /(?<![\w/&#-])#(\d{1,9})\b/g,
    /\bGH-(\d{1,9})\b/g,
    new RegExp(`(?<![\\w/.-])${owner}/${repo}#(\\d{1,9})\\b`, "gi"),
    new RegExp(`${web}/${owner}/${repo}/(?:issues|pull)/(\\d{1,9})\\b`, "gi"),
  ];
  const found = patterns.flatMap((pattern) => [...text.matchAll(pattern)]);
  const numbers = found.sort((a, b) => a.index - b.index).map(([, number]) => Number(number));
  return [...new Set(numbers)].filter((number) => number > 0);
}

/** Only GraphQL says which comments are minimized, for example as off-topic or spam. */
const minimizedQuery = (kind: "issue" | "pullRequest") => `query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) {
    thread: ${kind}(number: $number) {
      comments(last: 100) { nodes { databaseId isMinimized } }
    }
  }
}`;

const Comments = z.object({
  nodes: z.array(z.object({ databaseId: z.number().nullable(), isMinimized: z.boolean() })),
});
const Minimized = z.object({ repository: z.object({ thread: z.object({ comments: Comments }).nullable() }) });

/** Returns the ids of the minimized comments among the latest 100 of an issue or pull request. */
export async function readMinimizedComments(
  api: RepositoryApi,
  { number, isPullRequest }: { number: number; isPullRequest: boolean },
): Promise<number[]> {
  const query = minimizedQuery(isPullRequest ? "pullRequest" : "issue");
  const { repository } = await api.query(query, { number }, Minimized);
  const nodes = repository.thread?.comments.nodes ?? [];
  return nodes.flatMap(({ databaseId, isMinimized }) => (isMinimized && databaseId !== null ? [databaseId] : []));
}
