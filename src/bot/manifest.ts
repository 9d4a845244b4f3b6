type Permissions = Partial<
  Record<
    "issues" | "pull_requests" | "contents" | "checks" | "statuses" | "actions" | "metadata" | "members",
    "read" | "write"
  >
>;

/**
 * Every endpoint of GitHub the app calls, with the permission it takes. The client calls nothing that is not here, and
 * app.yml asks for exactly this much. Endpoints of the app itself need no permission of an installation.
 */
export const endpoints = {
  "GET /app": {},
  "POST /app/installations/{installation_id}/access_tokens": {},
  "GET /app/hook/deliveries": {},
  "POST /app/hook/deliveries/{delivery_id}/attempts": {},

  "GET /users/{username}": {},
  "GET /user/{account_id}": {},
  "GET /orgs/{org}/teams/{team_slug}/memberships/{username}": { members: "read" },

  "GET /repos/{owner}/{repo}": { metadata: "read" },
  "GET /repos/{owner}/{repo}/collaborators/{username}/permission": { metadata: "read" },
  "GET /repos/{owner}/{repo}/contents/{path}": { contents: "read" },
  "GET /repos/{owner}/{repo}/git/trees/{tree_sha}": { contents: "read" },
  "GET /repos/{owner}/{repo}/git/blobs/{file_sha}": { contents: "read" },
  "POST /repos/{owner}/{repo}/git/blobs": { contents: "write" },
  "POST /repos/{owner}/{repo}/git/trees": { contents: "write" },
  "POST /repos/{owner}/{repo}/git/commits": { contents: "write" },
  "GET /repos/{owner}/{repo}/branches/{branch}": { contents: "read" },
  "GET /repos/{owner}/{repo}/rules/branches/{branch}": { metadata: "read" },
  "GET /repos/{owner}/{repo}/commits": { contents: "read" },
  "GET /repos/{owner}/{repo}/commits/{commit_sha}/comments": { contents: "read" },
  "POST /repos/{owner}/{repo}/commits/{commit_sha}/comments": { contents: "read" },
  "GET /repos/{owner}/{repo}/commits/{ref}/check-runs": { checks: "read" },
  "GET /repos/{owner}/{repo}/commits/{ref}/check-suites": { checks: "read" },
  "GET /repos/{owner}/{repo}/commits/{ref}/status": { statuses: "read" },
  "GET /repos/{owner}/{repo}/check-runs/{check_run_id}/annotations": { checks: "read" },
  "GET /repos/{owner}/{repo}/actions/jobs/{job_id}/logs": { actions: "read" },
  "GET /repos/{owner}/{repo}/actions/runs": { actions: "read" },

  "GET /repos/{owner}/{repo}/issues": { issues: "read" },
  "GET /repos/{owner}/{repo}/issues/comments": { issues: "read" },
  "GET /repos/{owner}/{repo}/issues/{issue_number}": { issues: "read" },
  "GET /repos/{owner}/{repo}/issues/{issue_number}/comments": { issues: "read" },
  "GET /repos/{owner}/{repo}/issues/{issue_number}/events": { issues: "read" },
  "POST /repos/{owner}/{repo}/issues/{issue_number}/comments": { issues: "write" },
  "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}": { issues: "write" },
  "DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}": { issues: "write" },
  "GET /repos/{owner}/{repo}/issues/comments/{comment_id}": { issues: "read" },
  "POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions": { issues: "write" },
  "POST /repos/{owner}/{repo}/issues/{issue_number}/reactions": { issues: "write" },
  "POST /repos/{owner}/{repo}/issues/{issue_number}/labels": { issues: "write" },

  "GET /repos/{owner}/{repo}/pulls": { pull_requests: "read" },
  "GET /repos/{owner}/{repo}/pulls/{pull_number}": { pull_requests: "read" },
  "POST /repos/{owner}/{repo}/pulls": { pull_requests: "write" },
  "PATCH /repos/{owner}/{repo}/pulls/{pull_number}": { pull_requests: "write" },
  "GET /repos/{owner}/{repo}/pulls/{pull_number}/files": { pull_requests: "read" },
  "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments": { pull_requests: "read" },
  "GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews": { pull_requests: "read" },
  "POST /repos/{owner}/{repo}/pulls/{pull_number}/reviews": { pull_requests: "write" },
  "PUT /repos/{owner}/{repo}/pulls/{pull_number}/reviews/{review_id}/dismissals": { pull_requests: "write" },
  "POST /repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers": { pull_requests: "write" },
  "GET /repos/{owner}/{repo}/compare/{basehead}": { contents: "read" },
  "POST /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies": { pull_requests: "write" },
} as const satisfies Record<string, Permissions>;

/** Endpoints that repositories use by a setting. app.yml does not ask for their permissions: the app works without them. */
export const optionalEndpoints = {
  "POST /repos/{owner}/{repo}/check-runs": { checks: "write" },
} as const satisfies Record<string, Permissions>;

export type Endpoint = keyof typeof endpoints | keyof typeof optionalEndpoints;

/** The GraphQL mutations the app uses, since REST has no equivalent, with the permission each takes. */
export const mutations = {
  markPullRequestReadyForReview: { pull_requests: "write" },
  resolveReviewThread: { pull_requests: "write" },
  unresolveReviewThread: { pull_requests: "write" },
} as const satisfies Record<string, Permissions>;
export type Mutation = keyof typeof mutations;

/** The permissions of the token that is given to git, on one repository. */
export const gitPermissions = {
  read: { contents: "read" },
  write: { contents: "write" },
} as const satisfies Record<string, Permissions>;
