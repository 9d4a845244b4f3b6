import { z } from "zod";
import type { Caller, InstallationToken } from "#playground/github/credentials.ts";
import { mergeability } from "#playground/github/merge-actions.ts";
import { findPull, setDraft } from "#playground/github/pull-request-actions.ts";
import { ApiError } from "#playground/github/rest/api-error.ts";
import { allows, findVisibleRepository, requireToken } from "#playground/github/rest/operation.ts";
import { resolveReviewThread } from "#playground/github/review-actions.ts";
import { nodeId } from "#playground/github/shapes/node-id.ts";
import { threadUrl } from "#playground/github/shapes/thread.ts";
import {
  isPull,
  ofThread,
  type PullThread,
  type Repository,
  type StoredComment,
  type StoredReviewComment,
  type ThreadEvent,
  type World,
} from "#playground/github/world.ts";

const GraphqlRequest = z.object({ query: z.string(), variables: z.record(z.string(), z.unknown()).default({}) });
const ById = z.object({ id: z.string() });
const ByName = z.object({ owner: z.string(), name: z.string() });
const ByNumber = z.object({ number: z.number() });
const PullRequestInput = z.object({ input: z.object({ pullRequestId: z.string() }) });
const ReviewThreadInput = z.object({ input: z.object({ threadId: z.string() }) });

/** A field that takes arguments, or a plain value. */
type Field = unknown | ((args: Record<string, unknown>) => unknown);

/** Answers the few GraphQL queries and mutations that REST has no equivalent for. */
export function answerGraphql(world: World, caller: Caller, body: unknown): object {
  const token = requireToken(caller);
  const request = GraphqlRequest.safeParse(body);
  if (!request.success) throw new ApiError(400, "A query attribute must be specified and must be a string.");

  try {
    const { kind, fields } = parseQuery(request.data.query, request.data.variables);
    const root = kind === "mutation" ? mutations(world, token) : queries(world, token);
    return { data: project(root, fields, kind === "mutation" ? "Mutation" : "Query") };
  } catch (error) {
    if (!(error instanceof ApiError) && !(error instanceof z.ZodError)) throw error;
    const isMissing = error instanceof ApiError && error.status === 404;
    return { data: null, errors: [{ type: isMissing ? "NOT_FOUND" : "UNPROCESSABLE", message: error.message }] };
  }
}

function project(source: Record<string, Field>, selections: Selection[], type: string): Record<string, unknown> {
  const selected = selections.filter(({ on }) => on === undefined || on === (source.__typename ?? on));
  const entries = selected.map(({ name, alias, args, fields }) => {
    if (name === "__typename") return [alias, source.__typename ?? type];
    if (!Object.hasOwn(source, name)) throw new ApiError(200, `Field '${name}' doesn't exist on type '${type}'`);
    const field = source[name];
    const value = typeof field === "function" ? field(args) : field;
    return [alias, fields ? projectValue(value, fields, name) : value];
  });
  return Object.fromEntries(entries);
}

function projectValue(value: unknown, fields: Selection[], type: string): unknown {
  if (value === null || value === undefined) return null;
  if (Array.isArray(value)) return value.map((item) => projectValue(item, fields, type));
  return project(value as Record<string, Field>, fields, type);
}

function queries(world: World, token: InstallationToken): Record<string, Field> {
  return {
    repository: (args: unknown) => {
      const { owner, name } = ByName.parse(args);
      return describeRepository(world, findVisibleRepository(world, `${owner}/${name}`, token));
    },
    node: (args: unknown) => {
      const { repository, thread } = findPullById(world, token, ById.parse(args).id);
      return describePull(world, repository, thread);
    },
  };
}

function mutations(world: World, token: InstallationToken): Record<string, Field> {
  const markReady = (args: unknown) => {
    const { repository, thread } = findPullById(world, token, PullRequestInput.parse(args).input.pullRequestId);
    requireWrite(token);
    setDraft({ world, repository, actor: world.app.bot, app: world.app }, thread, false);
    return { clientMutationId: null, pullRequest: describePull(world, repository, thread) };
  };
  const setResolvedTo = (resolved: boolean) => (args: unknown) => {
    const { repository, thread, comment } = findReviewThread(
      world,
      token,
      ReviewThreadInput.parse(args).input.threadId,
    );
    requireWrite(token);
    resolveReviewThread({ world, repository, actor: world.app.bot, app: world.app }, thread, comment, resolved);
    return { clientMutationId: null, thread: describeReviewThread(repository, comment) };
  };
  return {
    markPullRequestReadyForReview: markReady,
    resolveReviewThread: setResolvedTo(true),
    unresolveReviewThread: setResolvedTo(false),
  };
}

function requireWrite(token: InstallationToken): void {
  if (!allows(token, { pull_requests: "write" })) throw new ApiError(200, "Resource not accessible by integration");
}

function visibleRepositories(world: World, token: InstallationToken): Repository[] {
  return [...world.repositories.values()].filter(
    ({ id, installation }) => installation === token.installation && (token.repositories?.has(id) ?? true),
  );
}

function unresolvable(id: string): ApiError {
  return new ApiError(404, `Could not resolve to a node with the global id of '${id}'`);
}

function findPullById(
  world: World,
  token: InstallationToken,
  id: string,
): { repository: Repository; thread: PullThread } {
  for (const repository of visibleRepositories(world, token)) {
    const pulls = [...repository.threads.values()].filter(isPull);
    const thread = pulls.find(({ pull }) => nodeId("PullRequest", pull.id) === id);
    if (thread) return { repository, thread };
  }
  throw unresolvable(id);
}

function findReviewThread(world: World, token: InstallationToken, id: string) {
  for (const repository of visibleRepositories(world, token)) {
    const comments = [...repository.reviewComments.values()];
    const comment = comments.find((one) => nodeId("PullRequestReviewThread", one.id) === id);
    const thread = comment && findPull(repository, comment.thread);
    if (thread) return { repository, thread, comment };
  }
  throw unresolvable(id);
}

function describeRepository(world: World, repository: Repository): Record<string, Field> {
  return {
    id: nodeId("Repository", repository.id),
    databaseId: repository.id,
    nameWithOwner: `${repository.owner.login}/${repository.name}`,
    pullRequest: (args: unknown) => {
      const { number } = ByNumber.parse(args);
      const thread = findPull(repository, number);
      if (!thread) throw new ApiError(404, `Could not resolve to a PullRequest with the number of ${number}.`);
      return describePull(world, repository, thread);
    },
    issue: (args: unknown) => {
      const { number } = ByNumber.parse(args);
      const thread = repository.threads.get(number);
      if (!thread || thread.pull)
        throw new ApiError(404, `Could not resolve to an Issue with the number of ${number}.`);
      const comments = ofThread(repository.comments, thread);
      const shared = { id: nodeId("Issue", thread.id), number, title: thread.title };
      return { ...shared, comments: (args: unknown) => lastPage(comments, args) };
    },
  };
}

function describePull(world: World, repository: Repository, thread: PullThread): Record<string, Field> {
  const { pull, number, title, state } = thread;
  const comments = ofThread(repository.comments, thread);
  const starts = ofThread(repository.reviewComments, thread).filter(({ inReplyTo }) => inReplyTo === undefined);
  const merge = mergeability({ world, repository }, thread);
  return {
    id: nodeId("PullRequest", pull.id),
    databaseId: pull.id,
    number,
    title,
    url: threadUrl(world, repository, thread),
    isDraft: pull.draft,
    state: pull.merged ? "MERGED" : state.toUpperCase(),
    headRefOid: pull.head.commit,
    mergeable: merge === "unknown" ? "UNKNOWN" : merge === "dirty" ? "CONFLICTING" : "MERGEABLE",
    comments: (args: unknown) => lastPage(comments, args),
    timelineItems: (args: unknown) => {
      const { last } = z.object({ last: z.number() }).parse(args);
      const changes = thread.events.filter(({ event }) => event === "closed" || event === "reopened");
      return connection(changes.slice(-last).map(describeStateChange));
    },
    reviewThreads: () => connection(starts.map((comment) => describeReviewThread(repository, comment))),
  };
}

function describeStateChange({ event, by, at }: ThreadEvent): Record<string, Field> {
  const actor = { __typename: by.type, login: by.login.replace(/\[bot\]$/, ""), databaseId: by.id };
  return { __typename: event === "reopened" ? "ReopenedEvent" : "ClosedEvent", actor, createdAt: at.toISOString() };
}

function describeReviewThread(repository: Repository, first: StoredReviewComment): Record<string, Field> {
  const replies = [...repository.reviewComments.values()].filter(({ inReplyTo }) => inReplyTo === first.id);
  const comments = [first, ...replies].map((one) => describeComment("PullRequestReviewComment", one));
  return {
    id: nodeId("PullRequestReviewThread", first.id),
    isResolved: first.resolvedBy !== undefined,
    isOutdated: first.line === undefined && !first.isOnFile,
    resolvedBy: first.resolvedBy ? { login: first.resolvedBy.login } : null,
    path: first.path,
    line: first.line ?? null,
    originalLine: first.originalLine,
    diffSide: first.side,
    comments: () => connection(comments),
  };
}

function describeComment(type: string, comment: StoredComment): Record<string, Field> {
  return {
    id: nodeId(type, comment.id),
    databaseId: comment.id,
    body: comment.body,
    author: { login: comment.author.login.replace(/\[bot\]$/, "") },
    createdAt: comment.createdAt.toISOString(),
    isMinimized: comment.minimized !== undefined,
    minimizedReason: comment.minimized ?? null,
  };
}

/** A page of the comments of a thread, counted from its end. The cursor is the number of comments before it. */
function lastPage(comments: readonly StoredComment[], args: unknown): Record<string, Field> {
  const { last, before } = z.object({ last: z.number().max(100), before: z.string().nullish() }).parse(args);
  const end = before ? Number(before) : comments.length;
  const start = Math.max(0, end - last);
  const nodes = comments.slice(start, end).map((one) => describeComment("IssueComment", one));
  return { totalCount: comments.length, nodes, pageInfo: { hasPreviousPage: start > 0, startCursor: `${start}` } };
}

/** Puts all nodes on one page: no conversation here has more than 100, GitHub's page size. */
function connection(nodes: Record<string, Field>[]): Record<string, Field> {
  return { totalCount: nodes.length, nodes, pageInfo: { hasNextPage: false, endCursor: null } };
}

/** A field of a GraphQL document with its selections, which are undefined for a leaf. */
interface Selection {
  name: string;
  alias: string;
  args: Record<string, unknown>;
  fields: Selection[] | undefined;
  /** The type of the inline fragment around it. */
  on?: string | undefined;
}

const queryToken = /[\s,]*(?:#[^\n]*\s*)*(\.\.\.|[{}()[\]:!=$@|&]|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|[A-Za-z_]\w*)/y;

/** Parses the part of GraphQL that clients of GitHub use: one operation with variables, arguments, aliases and inline fragments. */
function parseQuery(
  text: string,
  variables: Record<string, unknown>,
): { kind: "query" | "mutation"; fields: Selection[] } {
  const tokens = tokenize(text);
  let position = 0;
  const peek = () => tokens[position];
  const next = () => tokens[position++] ?? "";
  const accept = (expected: string) => peek() === expected && Boolean(next());
  const expect = (expected: string) => {
    if (!accept(expected)) throw syntaxError(peek());
  };

  function value(): unknown {
    const first = next();
    if (first === "$") return variables[next()];
    if (first === "[") return listUntil("]", value);
    if (first === "{") {
      const entries = listUntil("}", () => {
        const name = next();
        expect(":");
        return [name, value()] as const;
      });
      return Object.fromEntries(entries);
    }
    // A value that is not a string, a number, a boolean or null is an enum value.
    return /^["\d-]|^(true|false|null)$/.test(first) ? JSON.parse(first) : first;
  }

  function listUntil<T>(end: string, item: () => T): T[] {
    const items: T[] = [];
    while (!accept(end)) {
      if (peek() === undefined) throw syntaxError(undefined);
      items.push(item());
    }
    return items;
  }

  function selections(): Selection[] {
    return listUntil("}", selection).flat();
  }

  function selection(): Selection[] {
    if (accept("...")) {
      const on = accept("on") ? next() : undefined;
      expect("{");
      return selections().map((selection) => ({ on, ...selection }));
    }
    const alias = next();
    const name = accept(":") ? next() : alias;
    const args = accept("(") ? Object.fromEntries(listUntil(")", argument)) : {};
    return [{ name, alias, args, fields: accept("{") ? selections() : undefined }];
  }

  function argument(): [string, unknown] {
    const name = next();
    expect(":");
    return [name, value()];
  }

  const kind = peek() === "mutation" ? "mutation" : "query";
  // Skip the operation's name and the types of its variables, which only GitHub checks.
  while (peek() !== undefined && peek() !== "{") next();
  expect("{");
  return { kind, fields: selections() };
}

function tokenize(text: string): string[] {
  const tokens: string[] = [];
  queryToken.lastIndex = 0;
  for (let match = queryToken.exec(text); match; match = queryToken.exec(text)) tokens.push(match[1] ?? "");
  return tokens;
}

function syntaxError(found: string | undefined): ApiError {
  return new ApiError(200, found === undefined ? "Unexpected end of document" : `Unexpected token "${found}"`);
}
