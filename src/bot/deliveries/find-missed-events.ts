import { createHash } from "node:crypto";
import { z } from "zod";
import { readStateChange } from "#bot/github/conversation.ts";
import type { RepositoryApi } from "#bot/github/repository-api.ts";
import type { RepositoryRef } from "#domain/github.ts";
import { isHuman } from "./incoming-comment.ts";
import type { GitHubEvent } from "./receive-delivery.ts";

/** The maximum number of pages, of a hundred comments each, that are read at once. The rest is read the next time. */
const maxPages = 3;
/** The number of pull requests that one job asks about. */
const maxPullRequests = 10;

export interface MissedEventsOptions {
  api: RepositoryApi;
  repository: RepositoryRef;
  /** True for the key of an event that was stored. */
  isKnown: (key: string) => Promise<boolean>;
}

const Identified = z.object({ id: z.number() });
const KeyedPayload = z.object({
  action: z.string().optional(),
  comment: Identified.optional(),
  review: Identified.optional(),
  workflow_run: Identified.extend({ run_attempt: z.number().default(1) }).optional(),
});

/** Returns the key of an event. An event that is found by polling has the same key as when it arrives. */
export function keyOfEvent(name: string, payload: unknown): string {
  const { action = "", comment, review, workflow_run: run } = KeyedPayload.catch({}).parse(payload);
  if (action === "created" && comment) return `${name}.created ${comment.id}`;
  if (action === "submitted" && review) return `${name}.submitted ${review.id}`;
  if (action === "completed" && run) return `${name}.completed ${run.id} ${run.run_attempt}`;
  return createHash("sha256")
    .update(`${name}\n${JSON.stringify(payload)}`)
    .digest("hex");
}

/** Finds people's comments since this time that no event has reported. `readUntil` is where to continue. */
export async function findMissedComments(
  { api, repository, isKnown }: MissedEventsOptions,
  since: string,
): Promise<{ events: GitHubEvent[]; readUntil: string }> {
  const events: GitHubEvent[] = [];
  const readIssue = remembered((issue_number: number) =>
    api.call("GET /repos/{owner}/{repo}/issues/{issue_number}", { issue_number }),
  );
  let readUntil = since;
  for (let page = 1; page <= maxPages; page += 1) {
    const query = { since, sort: "updated" as const, direction: "asc" as const, per_page: 100, page };
    const comments = await api.call("GET /repos/{owner}/{repo}/issues/comments", query);
    for (const comment of comments) {
      readUntil = comment.updated_at;
      // The API does not say who edited a comment, so an edited one counts only through its own event.
      const isEdited = comment.updated_at !== comment.created_at;
      const isOld = Date.parse(comment.created_at) < Date.parse(since);
      if (!comment.user || !isHuman(comment.user) || isEdited || isOld) continue;
      const key = keyOfEvent("issue_comment", { action: "created", comment });
      if (await isKnown(key)) continue;
      const issue = await readIssue(Number(comment.issue_url.split("/").at(-1)));
      const payload = payloadOf(repository, "created", { comment, issue, sender: comment.user });
      events.push({ key, id: `comment ${comment.id}`, name: "issue_comment", payload });
    }
    if (comments.length < query.per_page) break;
  }
  return { events, readUntil };
}

/** Returns a function that asks once for each argument. */
function remembered<Argument, Result>(ask: (argument: Argument) => Promise<Result>) {
  const answers = new Map<Argument, Promise<Result>>();
  return (argument: Argument): Promise<Result> => answers.getOrInsertComputed(argument, ask);
}

/** Returns the open pull requests that a job asks about: the next after the last one that the job before it asked about. */
export function nextPullRequests(numbers: readonly number[], last: number): number[] {
  const sorted = numbers.toSorted((a, b) => a - b);
  const at = Math.max(
    0,
    sorted.findIndex((number) => number > last),
  );
  return [...sorted.slice(at), ...sorted.slice(0, at)].slice(0, maxPullRequests);
}

/** Finds reviews and completed workflows of these open pull requests of runs, and those that were closed, if no event has reported them. */
export async function findMissedFeedback(
  { api, repository, isKnown }: MissedEventsOptions,
  numbers: readonly number[],
): Promise<GitHubEvent[]> {
  const events: GitHubEvent[] = [];
  for (const number of numbers) {
    const pull = await api.call("GET /repos/{owner}/{repo}/pulls/{pull_number}", { pull_number: number });
    const name = "pull_request_review";
    const pages = await api.callPages("GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews", { pull_number: number });
    for (const review of pages.flat()) {
      if (!review.submitted_at || !review.user || !isHuman(review.user)) continue;
      const key = keyOfEvent(name, { action: "submitted", review });
      if (await isKnown(key)) continue;
      const payload = payloadOf(repository, "submitted", { review, pull_request: pull, sender: review.user });
      events.push({ key, id: `review ${review.id}`, name, payload });
    }
    if (pull.state !== "closed") {
      const query = { head_sha: pull.head.sha, status: "completed" as const };
      const { workflow_runs: completed } = await api.call("GET /repos/{owner}/{repo}/actions/runs", query);
      for (const workflow_run of completed) {
        const key = keyOfEvent("workflow_run", { action: "completed", workflow_run });
        if (await isKnown(key)) continue;
        const payload = payloadOf(repository, "completed", { workflow_run, sender: workflow_run.actor });
        events.push({ key, id: `workflow run ${workflow_run.id}`, name: "workflow_run", payload });
      }
      continue;
    }
    const key = `pull_request.closed ${number} ${pull.closed_at}`;
    if (await isKnown(key)) continue;
    const sender = pull.merged_by ?? (await readStateChange(api, number))?.by;
    const payload = payloadOf(repository, "closed", { pull_request: pull, sender });
    events.push({ key, id: `end of #${number}`, name: "pull_request", payload });
  }
  return events;
}

/** Finds those of these closed pull requests that are open again, if no event has reported it. */
export async function findMissedReopenings(
  { api, repository, isKnown }: MissedEventsOptions,
  numbers: readonly number[],
): Promise<GitHubEvent[]> {
  if (numbers.length === 0) return [];
  const query = { state: "open" as const, sort: "updated" as const, direction: "desc" as const, per_page: 100 };
  const open = await api.call("GET /repos/{owner}/{repo}/pulls", query);
  const events: GitHubEvent[] = [];
  for (const pull of open.filter(({ number }) => numbers.includes(number)).slice(0, maxPullRequests)) {
    const change = await readStateChange(api, pull.number);
    const key = `pull_request.reopened ${pull.number} ${change?.at.toISOString()}`;
    if (change?.state !== "open" || (await isKnown(key))) continue;
    const payload = payloadOf(repository, "reopened", { pull_request: pull, sender: change.by });
    events.push({ key, id: `reopening of #${pull.number}`, name: "pull_request", payload });
  }
  return events;
}

/** The payload of a webhook, as far as handlers read it. */
function payloadOf(
  { installationId, repositoryId, owner, repo }: RepositoryRef,
  action: string,
  subject: Record<string, unknown>,
): GitHubEvent["payload"] {
  const repository = { id: repositoryId, name: repo, owner: { login: owner } };
  return { action, installation: { id: installationId }, repository, ...subject } as GitHubEvent["payload"];
}
