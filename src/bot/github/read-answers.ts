import type { Endpoints } from "@octokit/types";
import { z } from "zod";
import type { Account, Check, Issue, Permission, PullRequest, ReviewComment } from "#domain/github.ts";

type Data<E extends keyof Endpoints> = Endpoints[E]["response"]["data"];

const PermissionAnswer = z.object({
  permission: z.enum(["admin", "write", "read", "none"]),
  role_name: z.string().optional(),
  user: z.object({ login: z.string(), id: z.number().optional() }).nullish(),
});

/**
 * Reads a permission. The role's name refines it and never raises it. An answer about another account is `none` for a
 * login, and undefined for an id: the account may have another login by now.
 */
export function readPermission(answer: unknown, { login, id }: Account): Permission | undefined {
  const { permission, role_name: role, user } = PermissionAnswer.parse(answer);
  const isById = user?.id !== undefined && id !== undefined;
  if (isById && user.id !== id) return undefined;
  if (user && !isById && user.login.toLowerCase() !== login.toLowerCase()) return "none";
  if (permission === "write" && role === "maintain") return "maintain";
  if (permission === "read" && role === "triage") return "triage";
  return permission;
}

export function readIssue(data: Data<"GET /repos/{owner}/{repo}/issues/{issue_number}">): Issue {
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
    merged: "merged" in data ? data.merged : data.merged_at !== null,
    ...(data.merged_at !== null && data.merge_commit_sha ? { mergeCommit: data.merge_commit_sha } : {}),
    draft: data.draft ?? false,
    head: { branch: data.head.ref, commit: data.head.sha, fromFork: data.head.repo?.id !== data.base.repo.id },
    base: { branch: data.base.ref, commit: data.base.sha },
  };
}

export function readReviewComment(
  comment: Data<"GET /repos/{owner}/{repo}/pulls/{pull_number}/comments">[number],
): ReviewComment {
  return {
    id: Number(comment.id),
    path: comment.path,
    line: comment.line ?? comment.original_line ?? null,
    body: comment.body,
    author: comment.user?.login ?? "ghost",
  };
}

export function readCheck({
  name,
  status,
  conclusion,
  output,
  html_url,
}: Data<"GET /repos/{owner}/{repo}/commits/{ref}/check-runs">["check_runs"][number]): Check {
  return { name, status, conclusion, summary: output?.summary ?? null, url: html_url };
}
