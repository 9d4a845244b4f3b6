import { z } from "zod";
import { IssueDetailFields } from "#bot/github/read-responses.ts";
import type { ReportedLocation } from "#domain/github.ts";

const OptionalDate = z.coerce.date().optional().catch(undefined);
const Installation = z.object({ id: z.number() });
const App = z.object({ id: z.number(), name: z.string().optional() });
const Account = z.object({ id: z.number(), login: z.string() });

const EventUser = z.object({ login: z.string().min(1), id: z.number(), type: z.string().optional() });
export type EventUser = z.infer<typeof EventUser>;

/** A repository in a payload. GitHub's own payloads always have the ids. */
const EventRepository = z.object({
  id: z.number().optional(),
  name: z.string(),
  owner: z.object({ id: z.number().optional(), login: z.string() }),
  created_at: OptionalDate,
  updated_at: OptionalDate,
});
export type EventRepository = z.infer<typeof EventRepository>;

/** A repository in a delivery that the app saves for itself. */
export const StoredRepositoryRef = z.object({
  repositoryId: z.number().optional(),
  installationId: z.number(),
  owner: z.string(),
  repo: z.string(),
});

const Issue = z.object({
  number: z.number(),
  state: z.string().optional(),
  locked: z.boolean().optional(),
  pull_request: z.unknown().optional(),
  title: z.string().optional(),
  created_at: OptionalDate,
  updated_at: OptionalDate,
  merged: z.boolean().optional(),
  body: z.string().nullish(),
  user: EventUser.nullish(),
  labels: z.array(z.object({ name: z.string() })).catch([]),
  ...IssueDetailFields.shape,
  /** Of a pull request: the branch it is to be merged into. */
  base: z.object({ ref: z.string() }).optional(),
  /** Of a pull request: its own branch. */
  head: z
    .object({ ref: z.string(), sha: z.string(), repo: z.object({ id: z.number() }).nullish() })
    .optional()
    .catch(undefined),
  /** The number of its comments. */
  comments: z.number().optional().catch(undefined),
  performed_via_github_app: App.nullish(),
});

const Comment = z.object({
  id: z.number(),
  body: z.string().nullish(),
  user: EventUser.nullish(),
  created_at: OptionalDate,
  performed_via_github_app: App.nullish(),
});

const ThreadPayload = z.object({
  action: z.string(),
  installation: Installation,
  repository: EventRepository,
  sender: EventUser.nullish(),
  /** The label that was added. */
  label: z.object({ name: z.string() }).nullish(),
  assignee: EventUser.nullish(),
  requested_reviewer: EventUser.nullish(),
});
export type ThreadPayload = z.infer<typeof ThreadPayload>;
export const IssuePayload = ThreadPayload.extend({ issue: Issue });
export type IssuePayload = z.infer<typeof IssuePayload>;
/** `changes` says where an issue was transferred to. */
export const RemovedIssuePayload = IssuePayload.extend({
  changes: z
    .object({ new_issue: z.object({ number: z.number() }), new_repository: EventRepository })
    .optional()
    .catch(undefined),
});
export type RemovedIssuePayload = z.infer<typeof RemovedIssuePayload>;
export const CommentPayload = IssuePayload.extend({ comment: Comment });
export type CommentPayload = z.infer<typeof CommentPayload>;
export const EditedCommentPayload = CommentPayload.extend({
  comment: Comment.extend({ updated_at: OptionalDate }),
  changes: z.object({ body: z.object({ from: z.string() }).optional() }).optional(),
});
export const PullRequestPayload = ThreadPayload.extend({ pull_request: Issue });
/** `changes.base` is there when the pull request was retargeted to another base branch. */
export const EditedPullRequestPayload = PullRequestPayload.extend({
  pull_request: Issue.extend({ base: z.object({ ref: z.string(), sha: z.string() }) }),
  changes: z.object({ base: z.unknown().optional() }).optional(),
});

export const ReviewCommentPayload = ThreadPayload.extend({
  pull_request: Issue,
  comment: Comment.extend({
    path: z.string(),
    line: z.number().nullish(),
    pull_request_review_id: z.number().nullish(),
  }),
});
export type ReviewCommentPayload = z.infer<typeof ReviewCommentPayload>;

export const ReviewPayload = PullRequestPayload.extend({
  review: z.object({
    id: z.number(),
    state: z.string(),
    body: z.string().nullish(),
    user: EventUser.nullish(),
    submitted_at: OptionalDate,
    performed_via_github_app: App.nullish(),
  }),
});

export type ReviewPayload = z.infer<typeof ReviewPayload>;

/** GitHub sends no action with a push. */
export const PushPayload = ThreadPayload.omit({ action: true }).extend({
  ref: z.string(),
  after: z.string().default(""),
  deleted: z.boolean().default(false),
  forced: z.boolean().default(false),
  repository: EventRepository.extend({ default_branch: z.string() }),
  commits: z
    .array(
      z.object({
        added: z.array(z.string()).default([]),
        modified: z.array(z.string()).default([]),
        removed: z.array(z.string()).default([]),
      }),
    )
    .default([]),
});
export type PushPayload = z.infer<typeof PushPayload>;

const CheckedCommit = z.object({
  head_sha: z.string(),
  head_branch: z.string().nullish(),
  updated_at: OptionalDate,
});
export const CheckSuitePayload = ThreadPayload.extend({
  check_suite: CheckedCommit.extend({ app: z.object({ id: z.number() }).nullish() }),
});
export const WorkflowRunPayload = ThreadPayload.extend({
  workflow_run: CheckedCommit.extend({ conclusion: z.string().nullish() }),
});
export const StatusPayload = ThreadPayload.omit({ action: true }).extend({
  sha: z.string(),
  state: z.string(),
  branches: z.array(z.object({ name: z.string() })).default([]),
  updated_at: OptionalDate,
});

const PreviousValue = z.object({ from: z.string() });
export const RepositoryPayload = z.object({
  installation: Installation,
  repository: EventRepository,
  changes: z
    .object({
      repository: z.object({ name: PreviousValue }).optional(),
      owner: z.object({ from: z.object({ user: Account.nullish(), organization: Account.nullish() }) }).optional(),
    })
    .optional(),
});

const ListedRepositories = z.array(z.object({ id: z.number(), name: z.string() })).default([]);
export type ListedRepositories = z.infer<typeof ListedRepositories>;

const InstallationWithAccount = Installation.extend({ account: Account });
export const InstallationPayload = z.object({
  action: z.string(),
  installation: InstallationWithAccount,
  repositories: ListedRepositories,
});
export type InstallationPayload = z.infer<typeof InstallationPayload>;

export const InstallationRepositoriesPayload = z.object({
  installation: InstallationWithAccount,
  repositories_added: ListedRepositories,
  repositories_removed: ListedRepositories,
});

/** Returns the location of a repository according to a payload; undefined without the repository's id. */
export function locationOf(
  { id, name, owner, created_at }: EventRepository,
  installationId: number,
  at: Date | undefined,
): ReportedLocation | undefined {
  if (id === undefined || owner.id === undefined) return undefined;
  const location = { repositoryId: id, installationId, ownerId: owner.id, owner: owner.login, repo: name };
  return { ...location, at: at?.getTime() ?? Date.now(), createdAt: created_at?.getTime() };
}
