import { z } from "zod";
import type { GitHub, Review, ReviewThread, StateChange, ThreadAction } from "#domain/github.ts";
import type { RepositoryApi } from "./repository-api.ts";

export async function readReviews(api: RepositoryApi, number: number): Promise<Review[]> {
  const endpoint = "GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews";
  const pages = await api.callPages(endpoint, { pull_number: number });
  return pages.flat().map(({ id, user, state, body, commit_id, submitted_at }) => ({
    id: Number(id),
    author: user?.login ?? "ghost",
    state: state.toLowerCase(),
    body,
    commit: commit_id,
    ...(submitted_at && { submittedAt: new Date(submitted_at) }),
  }));
}

export async function postReview(
  api: RepositoryApi,
  number: number,
  { commit, event, body, comments }: Parameters<GitHub["createReview"]>[1],
): Promise<{ id: number; url: string }> {
  const { id, html_url } = await api.call("POST /repos/{owner}/{repo}/pulls/{pull_number}/reviews", {
    pull_number: number,
    commit_id: commit,
    event,
    body,
    comments: comments.map(({ path, line, side, startLine, body: text }) => ({
      path,
      line,
      side,
      ...(startLine !== undefined && startLine < line && { start_line: startLine, start_side: side }),
      body: text,
    })),
  });
  return { id: Number(id), url: html_url };
}

/** REST knows the comments, and only GraphQL which threads are resolved and which comments are minimized. */
const threadsQuery = `query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) {
        nodes { id isResolved resolvedBy { login } comments(first: 100) { nodes { databaseId isMinimized } } }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}`;

const Threads = z.object({
  repository: z.object({
    pullRequest: z.object({
      reviewThreads: z.object({
        nodes: z.array(
          z.object({
            id: z.string(),
            isResolved: z.boolean(),
            resolvedBy: z.object({ login: z.string() }).nullable(),
            comments: z.object({ nodes: z.array(z.object({ databaseId: z.number(), isMinimized: z.boolean() })) }),
          }),
        ),
        pageInfo: z.object({ hasNextPage: z.boolean(), endCursor: z.string().nullable() }),
      }),
    }),
  }),
});

export async function readReviewThreads(api: RepositoryApi, number: number): Promise<ReviewThread[]> {
  const threads: ReviewThread[] = [];
  for (let after: string | null = null; ; ) {
    const answer: z.infer<typeof Threads> = await api.query(threadsQuery, { number, after }, Threads);
    const { nodes, pageInfo } = answer.repository.pullRequest.reviewThreads;
    for (const { id, isResolved, resolvedBy, comments } of nodes) {
      const firstCommentId = comments.nodes[0]?.databaseId;
      if (firstCommentId === undefined) continue;
      const minimized = comments.nodes.filter((one) => one.isMinimized).map(({ databaseId }) => databaseId);
      threads.push({ id, firstCommentId, isResolved, resolvedBy: resolvedBy?.login, minimized });
    }
    if (!pageInfo.hasNextPage) return threads;
    after = pageInfo.endCursor;
  }
}

const actorFields = "actor { __typename login ... on User { databaseId } ... on Bot { databaseId } }";
const stateQuery = `query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      timelineItems(itemTypes: [CLOSED_EVENT, REOPENED_EVENT], last: 1) {
        nodes {
          __typename
          ... on ClosedEvent { createdAt ${actorFields} }
          ... on ReopenedEvent { createdAt ${actorFields} }
        }
      }
    }
  }
}`;

const Actor = z.object({
  __typename: z.enum(["User", "Bot"]),
  login: z.string(),
  databaseId: z.number(),
});

const StateChanges = z.object({
  repository: z.object({
    pullRequest: z.object({
      timelineItems: z.object({
        nodes: z.array(
          z.object({
            __typename: z.enum(["ClosedEvent", "ReopenedEvent"]),
            createdAt: z.coerce.date(),
            actor: Actor.nullable().catch(null),
          }),
        ),
      }),
    }),
  }),
});

/** Only GraphQL leaves `[bot]` out of the logins of bots. */
function readActor({ __typename: type, login, databaseId: id }: z.infer<typeof Actor>): StateChange["by"] {
  return { type, id, login: type === "Bot" ? `${login}[bot]` : login };
}

/** Returns the last time that somebody closed or reopened a pull request. */
export async function readStateChange(api: RepositoryApi, number: number): Promise<StateChange | undefined> {
  const { repository } = await api.query(stateQuery, { number }, StateChanges);
  const [last] = repository.pullRequest.timelineItems.nodes;
  if (!last) return undefined;
  const state = last.__typename === "ReopenedEvent" ? "open" : "closed";
  return { state, by: last.actor ? readActor(last.actor) : undefined, at: last.createdAt };
}

/** The time in an event may be later than that of the action itself, which is stored to the second. */
const maxRecordDelayMs = 2_000;
/** An event that is older than this is not that of the action, whose own may not be recorded yet. */
const maxRecordAgeMs = 10 * 60_000;

const Person = z.object({ id: z.number() });
const RecordedAction = z
  .object({
    event: z.string(),
    created_at: z.coerce.date(),
    /** Of an assignment, the person who was assigned. */
    actor: Person.nullish(),
    assigner: Person.nullish(),
    review_requester: Person.nullish(),
    performed_via_github_app: z.object({}).nullish(),
    label: z.object({ name: z.string() }).optional(),
    assignee: z.object({ login: z.string() }).nullish(),
    requested_reviewer: z.object({ login: z.string() }).nullish(),
  })
  .transform(({ actor, assigner, review_requester, label, assignee, requested_reviewer, ...action }) => ({
    type: action.event,
    at: action.created_at,
    byId: (assigner ?? review_requester ?? actor)?.id,
    subject: label?.name ?? (requested_reviewer ?? assignee)?.login,
    isViaApp: Boolean(action.performed_via_github_app),
  }));

/** Returns true if an app took an action with a person's token; undefined if GitHub has no record of the action. */
export async function readWasViaApp(
  api: RepositoryApi,
  number: number,
  { type, byId, subject, at }: ThreadAction,
): Promise<boolean | undefined> {
  if (type === "opened") {
    const issue = await api.call("GET /repos/{owner}/{repo}/issues/{issue_number}", { issue_number: number });
    return Boolean(issue.performed_via_github_app);
  }
  const endpoint = "GET /repos/{owner}/{repo}/issues/{issue_number}/events";
  const read = (events: readonly unknown[]) => events.flatMap((event) => RecordedAction.safeParse(event).data ?? []);
  const ageOf = (one: z.infer<typeof RecordedAction>) => at.getTime() - one.at.getTime();
  const pages = await api.callLastPages(endpoint, { issue_number: number }, (page) =>
    read(page).some((one) => ageOf(one) > maxRecordAgeMs),
  );
  const found = read(pages.flat())
    .filter((one) => one.type === type && one.byId === byId && isSameSubject(one.subject, subject))
    .filter((one) => ageOf(one) >= -maxRecordDelayMs && ageOf(one) <= maxRecordAgeMs);
  const last = found.at(-1)?.at.getTime();
  // An app may have done the same within the same second.
  return last === undefined
    ? undefined
    : found.some((one) => one.isViaApp && last - one.at.getTime() <= maxRecordDelayMs);
}

function isSameSubject(one: string | undefined, other: string | undefined): boolean {
  return one?.toLowerCase() === other?.toLowerCase();
}

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
const minimizedQuery = (
  kind: "issue" | "pullRequest",
) => `query($owner: String!, $name: String!, $number: Int!, $before: String) {
  repository(owner: $owner, name: $name) {
    thread: ${kind}(number: $number) {
      comments(last: 100, before: $before) {
        nodes { databaseId isMinimized }
        pageInfo { hasPreviousPage startCursor }
      }
    }
  }
}`;

/** Pages of 100 comments. A run is shown 100 comments at most. */
const maxMinimizedPages = 5;

const Comments = z.object({
  nodes: z.array(z.object({ databaseId: z.number().nullable(), isMinimized: z.boolean() })),
  pageInfo: z.object({ hasPreviousPage: z.boolean(), startCursor: z.string().nullable() }),
});
const noComments: z.infer<typeof Comments> = { nodes: [], pageInfo: { hasPreviousPage: false, startCursor: null } };
const Minimized = z.object({ repository: z.object({ thread: z.object({ comments: Comments }).nullable() }) });

/** Returns the ids of the minimized comments among the latest of an issue or pull request. */
export async function readMinimizedComments(
  api: RepositoryApi,
  { number, isPullRequest }: { number: number; isPullRequest: boolean },
): Promise<number[]> {
  const query = minimizedQuery(isPullRequest ? "pullRequest" : "issue");
  const minimized: number[] = [];
  let before: string | null = null;
  for (let page = 0; page < maxMinimizedPages; page++) {
    const answer: z.infer<typeof Minimized> = await api.query(query, { number, before }, Minimized);
    const { nodes, pageInfo } = answer.repository.thread?.comments ?? noComments;
    const found = nodes.flatMap(({ databaseId: id, isMinimized }) => (isMinimized && id !== null ? [id] : []));
    minimized.push(...found);
    // Without minimized comments, no earlier one moves into what a run is shown.
    if (found.length === 0 || !pageInfo.hasPreviousPage) break;
    before = pageInfo.startCursor;
  }
  return minimized;
}
