import type { Probot } from "probot";
import { commentCreated, issueOpened, reviewCommentCreated } from "./handle-comment.ts";
import { checkSuiteCompleted, reviewSubmitted, statusSet, workflowRunCompleted } from "./handle-feedback.ts";
import { mergeCheckDue, mergeCheckEvent, pullRequestEdited } from "./handle-merge-check.ts";
import {
  branchPushed,
  installationRestored,
  installationRevoked,
  repositoriesAdded,
  repositoriesRemoved,
  repositoryDeleted,
  repositoryMoved,
} from "./handle-repository.ts";
import { requestEdited } from "./handle-request-edit.ts";
import { issueClosed, issueRemoved, pullRequestClosed, pullRequestReopened } from "./handle-thread-end.ts";
import {
  fileInvalid,
  invalidFileEvent,
  issueTriggered,
  pauseEvent,
  pullRequestTriggered,
  scheduleDue,
  scheduleEvent,
  threadPaused,
} from "./handle-triggers.ts";
import type { Handler } from "./handler.ts";

/** An event's name and its action, such as `issue_comment.created`; a push and a status have no action. */
type EventAction = Extract<Parameters<Probot["on"]>[0], `${string}.${string}` | "push" | "status">;

/** The webhook events the app handles. Every other event is ignored. */
export const handlers = {
  "issue_comment.created": commentCreated,
  "issues.opened": issueOpened,
  "issue_comment.edited": requestEdited,
  "issues.reopened": issueTriggered,
  "issues.labeled": issueTriggered,
  "issues.assigned": issueTriggered,
  "issues.closed": issueClosed,
  "issues.deleted": issueRemoved,
  "issues.transferred": issueRemoved,
  "pull_request.opened": pullRequestTriggered,
  "pull_request.synchronize": pullRequestTriggered,
  "pull_request.labeled": pullRequestTriggered,
  "pull_request.assigned": pullRequestTriggered,
  "pull_request.ready_for_review": pullRequestTriggered,
  "pull_request.review_requested": pullRequestTriggered,
  "pull_request.edited": pullRequestEdited,
  "pull_request.closed": pullRequestClosed,
  "pull_request.reopened": pullRequestReopened,
  push: branchPushed,
  "pull_request_review_comment.created": reviewCommentCreated,
  "pull_request_review.submitted": reviewSubmitted,
  "check_suite.completed": checkSuiteCompleted,
  "workflow_run.completed": workflowRunCompleted,
  status: statusSet,
  "repository.renamed": repositoryMoved,
  "repository.transferred": repositoryMoved,
  "repository.deleted": repositoryDeleted,
  "installation.created": installationRestored,
  "installation.unsuspend": installationRestored,
  "installation.suspend": installationRevoked,
  "installation.deleted": installationRevoked,
  "installation_repositories.added": repositoriesAdded,
  "installation_repositories.removed": repositoriesRemoved,
} satisfies Partial<Record<EventAction, Handler>>;

/** The deliveries that the app saves for itself. */
const ownHandlers: Readonly<Record<string, Handler>> = {
  [scheduleEvent]: scheduleDue,
  [mergeCheckEvent]: mergeCheckDue,
  [pauseEvent]: threadPaused,
  [invalidFileEvent]: fileInvalid,
};

/** Returns the handler of a stored delivery: a webhook's, or that of a delivery the app saved for itself. */
export function findStoredHandler(event: string): Handler | undefined {
  return Object.hasOwn(ownHandlers, event) ? ownHandlers[event] : findHandler(event);
}

export function findHandler(event: string): Handler | undefined {
  return Object.hasOwn(handlers, event) ? handlers[event as keyof typeof handlers] : undefined;
}

/** The events that every app receives without subscribing to them. */
const defaultEvents: readonly string[] = ["installation", "installation_repositories"];

export const subscribedEvents: readonly string[] = [
  ...new Set(Object.keys(handlers).map((event) => event.replace(/\..*/, ""))),
].filter((event) => !defaultEvents.includes(event));
