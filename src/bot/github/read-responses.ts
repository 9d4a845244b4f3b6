import type { Endpoints } from "@octokit/types";
import { z } from "zod";
import type { Account, Comment, Issue, IssueDetails, Permission, PullRequest, ReviewComment } from "#domain/github.ts";
import { hasAnyMarker } from "#text/comment-marker.ts";
import type { IsOwnCheck } from "./commit-checks.ts";

type Data<E extends keyof Endpoints> = Endpoints[E]["response"]["data"];

const PermissionResponse = z.object({
  permission: z.enum(["admin", "write", "read", "none"]),
  role_name: z.string().optional(),
  user: z.object({ login: z.string(), id: z.number().optional() }).nullish(),
});

/**
 * Reads a permission. The role's name refines it and never raises it. A response about another account is `none` for a
 * login, and undefined for an id: the account may have been renamed.
 */
export function readPermission(response: unknown, { login, id }: Account): Permission | undefined {
  const { permission, role_name: role, user } = PermissionResponse.parse(response);
  const isById = user?.id !== undefined && id !== undefined;
  if (isById && user.id !== id) return undefined;
  if (user && !isById && user.login.toLowerCase() !== login.toLowerCase()) return "none";
  if (permission === "write" && role === "maintain") return "maintain";
  if (permission === "read" && role === "triage") return "triage";
  return permission;
}

const Named = z.object({ name: z.string() });

/** The fields of an issue in responses and payloads that only some organizations have. */
export const IssueDetailFields = z.object({
  type: Named.nullish().catch(undefined),
  sub_issues_summary: z.object({ total: z.number(), completed: z.number() }).nullish().catch(undefined),
  issue_field_values: z
    .array(
      z.object({
        issue_field_name: z.string(),
        value: z.union([z.string(), z.number()]).nullish().catch(undefined),
        single_select_option: Named.nullish(),
        multi_select_options: z.array(Named).nullish(),
      }),
    )
    .catch([])
    .default([]),
});

export function readIssueDetails(data: z.infer<typeof IssueDetailFields>): IssueDetails {
  const { type, sub_issues_summary: subIssues } = data;
  const fields = data.issue_field_values.flatMap(({ issue_field_name: name, value, ...options }) => {
    const chosen = options.multi_select_options ?? (options.single_select_option ? [options.single_select_option] : []);
    const text = chosen.length > 0 ? chosen.map((option) => option.name).join(", ") : String(value ?? "");
    return text === "" ? [] : [{ name, value: text }];
  });
  return {
    ...(type && { type: type.name }),
    ...(subIssues && subIssues.total > 0 && { subIssues }),
    ...(fields.length > 0 && { fields }),
  };
}

export function readIssue(data: Data<"GET /repos/{owner}/{repo}/issues/{issue_number}">): Issue {
  return {
    number: data.number,
    title: data.title,
    body: data.body ?? "",
    author: data.user?.login ?? "ghost",
    authorId: data.user ? Number(data.user.id) : undefined,
    state: data.state === "closed" ? "closed" : "open",
    locked: data.locked,
    labels: data.labels.map((label) => (typeof label === "string" ? label : (label.name ?? ""))),
    isPullRequest: data.pull_request !== undefined,
    ...readIssueDetails(IssueDetailFields.parse(data)),
  };
}

export type PullRequestData =
  | Data<"GET /repos/{owner}/{repo}/pulls/{pull_number}">
  | Data<"GET /repos/{owner}/{repo}/pulls">[number];

export function readPullRequest(data: PullRequestData): PullRequest {
  return {
    number: data.number,
    url: data.html_url,
    title: data.title,
    body: data.body ?? "",
    state: data.state === "closed" ? "closed" : "open",
    updatedAt: new Date(data.updated_at),
    merged: "merged" in data ? data.merged : data.merged_at !== null,
    ...(data.merged_at !== null && data.merge_commit_sha ? { mergeCommit: data.merge_commit_sha } : {}),
    draft: data.draft ?? false,
    ...("mergeable" in data && data.mergeable !== null ? { mergeable: data.mergeable } : {}),
    head: { branch: data.head.ref, commit: data.head.sha, fromFork: data.head.repo?.id !== data.base.repo.id },
    base: { branch: data.base.ref, commit: data.base.sha },
  };
}

/** The identity of this deployment on GitHub. */
export interface Identity {
  /** Undefined if others also act with the App that the token belongs to. */
  appId: number | undefined;
  /** The login that comments have. */
  ownLogin: () => Promise<string>;
  isOwnCheck: IsOwnCheck;
}

export async function readComment(
  comment: Data<"GET /repos/{owner}/{repo}/issues/{issue_number}/comments">[number],
  { appId, ownLogin }: Identity,
): Promise<Comment> {
  const author = comment.user?.login ?? "ghost";
  const byApp = comment.performed_via_github_app?.id;
  // All workflows of GitHub Actions share a login, so a job also looks for the marker.
  const isOwnLogin = async () =>
    author.endsWith("[bot]") &&
    author === (await ownLogin()) &&
    (appId !== undefined || hasAnyMarker(comment.body ?? ""));
  return {
    id: Number(comment.id),
    body: comment.body ?? "",
    author,
    authorId: comment.user ? Number(comment.user.id) : undefined,
    createdAt: new Date(comment.created_at),
    updatedAt: new Date(comment.updated_at),
    own: byApp === undefined || appId === undefined ? await isOwnLogin() : byApp === appId,
  };
}

export function readReviewComment(
  comment: Data<"GET /repos/{owner}/{repo}/pulls/{pull_number}/comments">[number],
): ReviewComment {
  const isOnFile = comment.subject_type === "file";
  return {
    id: Number(comment.id),
    reviewId: comment.pull_request_review_id === null ? null : Number(comment.pull_request_review_id),
    ...(comment.in_reply_to_id && { inReplyTo: Number(comment.in_reply_to_id) }),
    path: comment.path,
    startLine: isOnFile ? null : (comment.start_line ?? comment.original_start_line ?? null),
    line: isOnFile ? null : (comment.line ?? comment.original_line ?? null),
    isOutdated: !isOnFile && (comment.line ?? null) === null,
    side: comment.side ?? "RIGHT",
    body: comment.body,
    author: comment.user?.login ?? "ghost",
    updatedAt: new Date(comment.updated_at),
    diffHunk: comment.diff_hunk,
  };
}
