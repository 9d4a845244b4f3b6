import type { Endpoints, RequestParameters } from "@octokit/types";
import type { Probot, ProbotOctokit } from "probot";
import { z } from "zod";
import { type Endpoint, gitPermissions } from "#bot/manifest.ts";
import type { Config } from "#config/config.ts";
import {
  type Check,
  type Comment,
  type GitHub,
  GitHubRefusal,
  type Issue,
  type OpenGitHub,
  type Permission,
  type PullRequest,
  type RepositoryRef,
  type ReviewComment,
} from "#domain/github.ts";
import { withRetries } from "#domain/with-retries.ts";
import { createRedactor } from "#text/redact.ts";
import { fetchByNumber } from "./fetch-by-number.ts";

type Octokit = InstanceType<typeof ProbotOctokit>;
type Answer<E extends Endpoint> = Endpoints[E]["response"]["data"];

/** GitHub must answer in time for the webhook's own answer. */
const permissionTimeoutMs = 8_000;

/** A token of an hour is given out until it has this long to live. */
const minTokenLifetimeMs = 10 * 60_000;

/** The GitHub of every repository the app is installed on, over Probot's Octokit. Nothing secret leaves in a text. */
export function createOpenGitHub(probot: Probot, config: Config): OpenGitHub {
  const redact = createRedactor(config.secrets);
  const tokens = new Map<string, { token: string; expiresAt: number }>();
  let slug: Promise<string> | undefined;

  const ownLogin = () => {
    slug ??= readOwnLogin(probot).catch((error) => {
      slug = undefined;
      throw error;
    });
    return slug;
  };
  return (repository) => openRepository({ probot, repository, redact, tokens, ownLogin, appId: config.app.appId });
}

async function readOwnLogin(probot: Probot): Promise<string> {
  const app = await (await probot.auth()).request("GET /app");
  return `${app.data?.slug}[bot]`;
}

interface Opened {
  probot: Probot;
  repository: RepositoryRef;
  redact: (text: string) => string;
  tokens: Map<string, { token: string; expiresAt: number }>;
  ownLogin: () => Promise<string>;
  appId: number;
}

function openRepository({ probot, repository, redact, tokens, ownLogin, appId }: Opened): GitHub {
  const here = { owner: repository.owner, repo: repository.repo };
  const { repositoryId } = repository;
  const byNumber = repositoryId === undefined ? {} : { fetch: fetchByNumber(here, repositoryId) };
  let octokit: Promise<Octokit> | undefined;
  const client = () => {
    octokit ??= probot.auth(repository.installationId);
    return octokit;
  };
  // The only way to ask here: pagination passes on no options of a single request.
  const requester = async () => (await client()).request.defaults({ request: byNumber });

  const call = async <E extends Endpoint>(endpoint: E, parameters: Endpoints[E]["parameters"]): Promise<Answer<E>> => {
    // Not tried again by itself: an answer that was lost may have been a comment that was made.
    const once = endpoint.startsWith("POST") ? { request: { retries: 0 } } : {};
    const response = await withRefusals(here, async () =>
      (await requester())(endpoint as "GET /app", { ...parameters, ...once } as RequestParameters),
    );
    return response.data as Answer<E>;
  };
  const all = async <E extends Endpoint>(endpoint: E, parameters: Endpoints[E]["parameters"]): Promise<Answer<E>> => {
    const [method, url] = endpoint.split(" ") as [string, string];
    const paginate = (await client()).paginate as unknown as (route: object, values: object) => Promise<Answer<E>>;
    return withRefusals(here, async () =>
      paginate((await requester()).defaults({ method, url } as RequestParameters), { per_page: 100, ...parameters }),
    );
  };

  const readComment = async (comment: Answer<"GET /repos/{owner}/{repo}/issues/{issue_number}/comments">[number]) => {
    const author = comment.user?.login ?? "ghost";
    const byApp = comment.performed_via_github_app?.id;
    return {
      id: Number(comment.id),
      body: comment.body ?? "",
      author,
      createdAt: new Date(comment.created_at),
      updatedAt: new Date(comment.updated_at),
      own: byApp === undefined ? author.endsWith("[bot]") && author === (await ownLogin()) : byApp === appId,
    } satisfies Comment;
  };

  const askPermission = async (login: string): Promise<Permission> => {
    const answer = await (await requester())("GET /repos/{owner}/{repo}/collaborators/{username}/permission", {
      ...here,
      username: login,
      request: { retries: 1, signal: AbortSignal.timeout(permissionTimeoutMs) },
    });
    return readPermission(answer.data, login);
  };

  return {
    repository,
    ownLogin,

    getPermission: (login) => askPermission(login).catch(() => "none"),

    confirmPermission: (login, signal) =>
      withRetries(() => withRefusals(here, () => askPermission(login)), { signal }).catch((error) => {
        if (error instanceof GitHubRefusal) return "none";
        throw error;
      }),

    getRepository: async () => {
      const data = await call("GET /repos/{owner}/{repo}", here);
      return { defaultBranch: data.default_branch, private: data.private, cloneUrl: data.clone_url };
    },

    getIssue: async (number) => {
      const data = await undefinedIfMissing(
        call("GET /repos/{owner}/{repo}/issues/{issue_number}", { ...here, issue_number: number }),
      );
      return data && readIssue(data);
    },

    listIssues: async ({ state = "open", labels, limit = 30 }) => {
      const found: Issue[] = [];
      const query = { ...here, state, ...(labels?.length ? { labels: labels.join(",") } : {}) };
      for (let page = 1; found.length < limit; page++) {
        const answer = await call("GET /repos/{owner}/{repo}/issues", { ...query, per_page: 100, page });
        found.push(...answer.map(readIssue).filter((issue) => !issue.isPullRequest));
        if (answer.length < 100) break;
      }
      return found.slice(0, limit);
    },

    listComments: async (number) => {
      const endpoint = "GET /repos/{owner}/{repo}/issues/{issue_number}/comments";
      return Promise.all((await all(endpoint, { ...here, issue_number: number })).map(readComment));
    },

    createComment: async (number, body) => {
      const endpoint = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments";
      return {
        ...(await readComment(await call(endpoint, { ...here, issue_number: number, body: redact(body) }))),
        own: true,
      };
    },

    updateComment: async (commentId, body) => {
      const endpoint = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}";
      await call(endpoint, { ...here, comment_id: commentId, body: redact(body) });
    },

    addReaction: async (commentId, content) => {
      const endpoint = "POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions";
      await call(endpoint, { ...here, comment_id: commentId, content });
    },

    addIssueReaction: async (number, content) => {
      const endpoint = "POST /repos/{owner}/{repo}/issues/{issue_number}/reactions";
      await call(endpoint, { ...here, issue_number: number, content });
    },

    addLabels: async (number, labels) => {
      const endpoint = "POST /repos/{owner}/{repo}/issues/{issue_number}/labels";
      const data = await call(endpoint, { ...here, issue_number: number, labels: labels.map(redact) });
      return data.map((label) => label.name);
    },

    getPullRequest: async (number) => {
      const endpoint = "GET /repos/{owner}/{repo}/pulls/{pull_number}";
      const data = await undefinedIfMissing(call(endpoint, { ...here, pull_number: number }));
      return data && readPull(data);
    },

    findPullRequest: async (branch) => {
      const data = await call("GET /repos/{owner}/{repo}/pulls", {
        ...here,
        head: `${here.owner}:${branch}`,
        state: "all",
        per_page: 100,
      });
      // A server that ignores `head` must not hand us somebody else's.
      const own = data.find(({ head, base }) => head.ref === branch && head.repo?.id === base.repo.id);
      return own && readPull(own);
    },

    createPullRequest: async ({ title, body, ...pull }) => {
      const words = { title: redact(title), body: redact(body) };
      try {
        return readPull(await call("POST /repos/{owner}/{repo}/pulls", { ...here, ...pull, ...words }));
      } catch (error) {
        if (!isInvalid(error, "base")) throw error;
        const gone = `There is no branch ${pull.base} in ${here.owner}/${here.repo} (422).`;
        throw new GitHubRefusal(gone, { status: 422, cause: error });
      }
    },

    updatePullRequest: async (number, { title, body }) => {
      const words = {
        ...(title === undefined ? {} : { title: redact(title) }),
        ...(body === undefined ? {} : { body: redact(body) }),
      };
      const endpoint = "PATCH /repos/{owner}/{repo}/pulls/{pull_number}";
      return readPull(await call(endpoint, { ...here, pull_number: number, ...words }));
    },

    listReviewComments: async (number) => {
      const endpoint = "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments";
      const data = await all(endpoint, { ...here, pull_number: number });
      return data.map(
        (comment): ReviewComment => ({
          id: Number(comment.id),
          path: comment.path,
          line: comment.line ?? comment.original_line ?? null,
          body: comment.body,
          author: comment.user?.login ?? "ghost",
        }),
      );
    },

    replyToReviewComment: async (number, reviewCommentId, body) => {
      const endpoint = "POST /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies";
      const place = { ...here, pull_number: number, comment_id: reviewCommentId };
      const { id } = await call(endpoint, { ...place, body: redact(body) });
      return { id: Number(id) };
    },

    listChecks: async (ref) => {
      const endpoint = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs";
      const runs = (await all(endpoint, { ...here, ref })) as unknown as Answer<typeof endpoint>["check_runs"];
      return runs.map(
        ({ name, status, conclusion, output, html_url }): Check => ({
          name,
          status,
          conclusion,
          summary: output?.summary ?? null,
          url: html_url,
        }),
      );
    },

    readFile: async (path) => {
      const data = await contents(path);
      if (!data || Array.isArray(data) || data.type !== "file") return undefined;
      // Above a megabyte the file itself comes without its content.
      const { content, encoding } =
        data.encoding === "base64" && data.content !== ""
          ? data
          : await call("GET /repos/{owner}/{repo}/git/blobs/{file_sha}", { ...here, file_sha: data.sha });
      return Buffer.from(content, encoding === "base64" ? "base64" : "utf8").toString("utf8");
    },

    listFiles: async (path) => {
      const data = await contents(path);
      return Array.isArray(data) ? data.filter(({ type }) => type === "file").map(({ name }) => name) : [];
    },

    createGitToken: async (access) => {
      const name = repositoryId ?? `${here.owner}/${here.repo}`;
      const key = `${repository.installationId} ${name} ${access}`.toLowerCase();
      const held = tokens.get(key);
      if (held && held.expiresAt - Date.now() > minTokenLifetimeMs) return held.token;

      // Octokit's own way to a narrowed token ignores where GitHub is, and asks api.github.com.
      const app = await probot.auth();
      const { data } = await withRefusals(here, () =>
        app.request("POST /app/installations/{installation_id}/access_tokens", {
          installation_id: repository.installationId,
          ...(repositoryId === undefined ? { repositories: [here.repo] } : { repository_ids: [repositoryId] }),
          permissions: gitPermissions[access],
        }),
      );
      tokens.set(key, { token: data.token, expiresAt: Date.parse(data.expires_at) });
      return data.token;
    },
  };

  async function contents(path: string): Promise<Answer<"GET /repos/{owner}/{repo}/contents/{path}"> | undefined> {
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    // `{+path}` keeps the slashes, which not every server takes encoded.
    const endpoint = "GET /repos/{owner}/{repo}/contents/{+path}" as "GET /repos/{owner}/{repo}/contents/{path}";
    return undefinedIfMissing(call(endpoint, { ...here, path: encoded }));
  }
}

const PermissionAnswer = z.object({
  permission: z.enum(["admin", "write", "read", "none"]),
  role_name: z.string().optional(),
  user: z.object({ login: z.string() }).nullish(),
});

/** The role only says more exactly what the permission allows; it never raises it. */
function readPermission(answer: unknown, login: string): Permission {
  const { permission, role_name: role, user } = PermissionAnswer.parse(answer);
  if (user && user.login.toLowerCase() !== login.toLowerCase()) return "none";
  if (permission === "write" && role === "maintain") return "maintain";
  if (permission === "read" && role === "triage") return "triage";
  return permission;
}

function readIssue(data: Answer<"GET /repos/{owner}/{repo}/issues/{issue_number}">): Issue {
  return {
    number: data.number,
    title: data.title,
    body: data.body ?? "",
    author: data.user?.login ?? "ghost",
    state: data.state === "closed" ? "closed" : "open",
    locked: data.locked,
    labels: data.labels.map((label) => (typeof label === "string" ? label : (label.name ?? ""))),
    isPullRequest: data.pull_request !== undefined,
  };
}

type PullData =
  | Answer<"GET /repos/{owner}/{repo}/pulls/{pull_number}">
  | Answer<"GET /repos/{owner}/{repo}/pulls">[number];

function readPull(data: PullData): PullRequest {
  return {
    number: data.number,
    url: data.html_url,
    title: data.title,
    body: data.body ?? "",
    state: data.state === "closed" ? "closed" : "open",
    merged: "merged" in data ? data.merged : data.merged_at !== null,
    draft: data.draft ?? false,
    head: { branch: data.head.ref, commit: data.head.sha, fromFork: data.head.repo?.id !== data.base.repo.id },
    base: { branch: data.base.ref, commit: data.base.sha },
  };
}

interface RequestError {
  status?: number;
  message?: string;
  response?: { headers?: Record<string, unknown> };
}

/** What GitHub refuses for good becomes a sentence; whatever may pass stays as it was thrown. */
async function withRefusals<T>({ owner, repo }: { owner: string; repo: string }, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const { status = 0, message = "", response } = error as RequestError;
    const where = `${owner}/${repo}`;
    const refusal = {
      401: `GitHub does not know this app in ${where} any more (401). It may have been uninstalled there.`,
      403: `GitHub does not let this app do that in ${where} (403): ${message.replace(/ - https:.*$/s, "")}`,
      404: `GitHub does not find that in ${where}, or does not show it to this app (404). It may be deleted or moved, or the app is not installed there any more.`,
      410: `That is gone from ${where} (410).`,
      451: `GitHub keeps that of ${where} back for legal reasons (451).`,
    }[status];
    // Too many requests come as 403, too.
    if (!refusal || response?.headers?.["retry-after"] || /rate limit/i.test(message)) throw error;
    throw new GitHubRefusal(refusal, { status, cause: error });
  }
}

/** True where GitHub found fault with this field of what it was sent. */
function isInvalid(error: unknown, field: string): boolean {
  const { status, response } = error as RequestError & { response?: { data?: { errors?: { field?: string }[] } } };
  return status === 422 && (response?.data?.errors ?? []).some((problem) => problem.field === field);
}

/** What is not there, or is gone, is undefined. */
async function undefinedIfMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    const { status } = error as { status?: number };
    if (status === 404 || status === 410) return undefined;
    throw error;
  }
}
