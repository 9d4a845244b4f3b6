import { createHash, randomUUID } from "node:crypto";
import { z } from "zod";
import { postComment } from "#bot/github/post-comment.ts";
import { code, codeBlock, paragraphs } from "#bot/render/markdown.ts";
import { settingsPath } from "#config/repository-settings.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import { GitHubRefusalError, type RepositoryRef } from "#domain/github.ts";
import { isRunBranch } from "#domain/run.ts";
import { nextCronTime } from "#domain/trigger.ts";
import type { Runs, ThreadPause, ThreadRef } from "#runtime/runs.ts";
import { saveMergeCheck } from "./handle-merge-check.ts";
import {
  type DeliveryContext,
  defineHandler,
  type HandlerServices,
  ignoreThread,
  queueIn,
  queueOf,
  threadEventKey,
  threadOf,
} from "./handler.ts";
import { ignoreAuthor } from "./incoming-comment.ts";
import {
  IssuePayload,
  locationOf,
  PullRequestPayload,
  type PushPayload,
  StoredRepositoryRef,
  type ThreadPayload,
} from "./payloads.ts";

/** A schedule that is due later than this is checked in between, so that no delivery is kept longer than its key. */
const maxAheadMs = 7 * 24 * 60 * 60_000;

const Tick = z.object({
  repository: StoredRepositoryRef,
  worker: z.string(),
  cron: z.string(),
  issue: z.number(),
  /** The time at which the run is due. */
  dueAt: z.number(),
});
type Tick = z.infer<typeof Tick>;

type TriggeringThread = z.infer<typeof IssuePayload>["issue"];

/** The actions of which GitHub records whether an app took them. */
const RecordedType = z.enum(["opened", "reopened", "labeled", "assigned", "review_requested", "ready_for_review"]);
/** The record of an event may be read a moment later than the event is delivered. */
const maxAttemptsForRecord = 2;

/** The event of the deliveries that the app saves for itself: one for the next time of each schedule. */
export const scheduleEvent = "schedule.due";

export const scheduleDue = defineHandler(Tick, {
  queue: queueOfTick,
  handle: async (tick, context) => {
    const { worker, cron, issue, dueAt } = tick;
    let { repository } = tick;
    try {
      // The list of repositories that are served, or the name, may have changed since the delivery was stored.
      const { owner, repo } = await context.openGitHub(repository).getRepository();
      if (!context.serves({ owner, repo })) return;
      repository = { ...repository, owner, repo };
      const { schedules } = await context.runs().listSchedules(repository);
      const found = schedules.find(
        (one) => one.worker === worker && one.schedule.cron === cron && one.schedule.issue === issue,
      );
      // It was changed or removed; its replacement has its own deliveries.
      if (!found) return;
      if (dueAt <= Date.now()) await startScheduled(found, { ...tick, repository }, context);
    } catch (error) {
      // The app may be suspended, which ends without an event about this repository. What is not found (404) has ended.
      if (!(error instanceof GitHubRefusalError) || error.status !== 403) throw error;
      context.log.info(`The schedule ${cron} of ${worker} could not be started: ${error.message}`);
    }
    await saveTick({ ...tick, repository }, context);
  },
  report: async (tick, context) => saveTick(tick, context),
});

type Triggers = Awaited<ReturnType<Runs["listSchedules"]>>;

/** Starts the run, or posts why it cannot start in the schedule's issue, at most once a day. */
async function startScheduled(
  { worker, schedule }: Triggers["schedules"][number],
  { repository, cron, dueAt }: Tick,
  context: DeliveryContext,
): Promise<void> {
  const deliveryId = `schedule ${repository.repositoryId} ${worker} ${cron} ${dueAt}`;
  try {
    const pause = await context.runs().startScheduled({ repository, worker, schedule, deliveryId });
    if (pause) await reportPause(pause, { ...repository, thread: schedule.issue }, context);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const day = new Date().toISOString().slice(0, 10);
    const name = `schedule/${worker}/${cron}/${day}`;
    const body = context.sanitize(`The scheduled run of ${worker} (\`${cron}\`) did not start: ${error.message}`);
    await postComment(context.openGitHub(repository), { thread: schedule.issue, name, body });
  }
}

const PauseNotice = z.object({ repository: StoredRepositoryRef, thread: z.number(), text: z.string() });

/** The event of the deliveries that the app saves for itself to say in a thread why no event starts a worker there. */
export const pauseEvent = "thread.paused";

/** Saves the notice, so that events that arrive at the same time post it once. */
async function reportPause(
  { key, text }: ThreadPause,
  { thread, ...repository }: ThreadRef,
  { saveDelivery, log }: HandlerServices,
): Promise<void> {
  log.info(`No worker is started in ${repository.owner}/${repository.repo}#${thread}: ${text}`);
  const payload: z.infer<typeof PauseNotice> = { repository, thread, text };
  await saveDelivery({ key, queue: queueIn(repository, thread), content: { id: key, event: pauseEvent, payload } });
}

export const threadPaused = defineHandler(PauseNotice, {
  queue: ({ repository, thread }) => queueIn(repository, thread),
  handle: async ({ repository, thread, text }, { deliveryId: name, openGitHub, sanitize }) => {
    await postComment(openGitHub(repository), { thread, name, body: sanitize(text) });
  },
});

/**
 * Makes sure that the next time of each schedule of a repository is stored, and that its maintainers know of invalid files.
 * `isChanged`: the files may have changed just now.
 */
export async function updateTriggers(
  repository: RepositoryRef,
  context: HandlerServices,
  options: { isChanged?: boolean } = {},
): Promise<void> {
  const { schedules, invalidFiles } = await context.runs().listSchedules(repository, options);
  for (const { worker, schedule } of schedules) {
    const { cron, issue } = schedule;
    await saveTick({ repository, worker, cron, issue, dueAt: 0 }, context);
  }
  for (const file of invalidFiles) await reportInvalidFile(file, repository, context, options);
}

const InvalidFileNotice = z.object({ repository: StoredRepositoryRef, path: z.string(), problem: z.string() });

/** The event of the deliveries that the app saves for itself to report an invalid file. */
export const invalidFileEvent = "file.invalid";

/** Saves the report. Those of a repository are made in turn, so that events that arrive at the same time post one. */
async function reportInvalidFile(
  { path, problem }: Triggers["invalidFiles"][number],
  repository: RepositoryRef,
  { saveDelivery }: HandlerServices,
  { isChanged = false }: { isChanged?: boolean },
): Promise<void> {
  const { repositoryId, owner, repo } = repository;
  const digest = createHash("sha256").update(problem).digest("hex");
  const id = `invalid file ${repositoryId ?? `${owner}/${repo}`} ${path} ${digest}`;
  const notice: z.infer<typeof InvalidFileNotice> = { repository, path, problem };
  await saveDelivery({
    // A new commit may have the problem of an earlier one.
    key: isChanged ? `${id} ${randomUUID()}` : id,
    queue: queueOfInvalidFile(notice),
    content: { id, event: invalidFileEvent, payload: notice },
  });
}

function queueOfInvalidFile({ repository }: { repository: RepositoryRef }): string {
  return `${queueIn(repository, 0)} invalid file`;
}

/** Comments on the commit that made a file invalid. GitHub notifies its author, and no thread is about this. */
export const fileInvalid = defineHandler(InvalidFileNotice, {
  queue: queueOfInvalidFile,
  handle: ({ repository, path, problem }, { openGitHub, sanitize }) => {
    const effect = path === settingsPath ? "No event or schedule starts a worker" : "It has no effect";
    const body = sanitize(
      paragraphs(
        `${code(path)} on the default branch cannot be used. ${effect} until it is corrected.`,
        codeBlock(problem),
      ),
    );
    return openGitHub(repository).commentOnFile(path, { name: `invalid/${path}`, body });
  },
});

/** Stores the next time after now. Times that were missed while the app was down are skipped. */
async function saveTick(
  { repository, worker, cron, issue }: Tick,
  { saveDelivery }: Pick<DeliveryContext, "saveDelivery">,
): Promise<void> {
  const now = Date.now();
  const dueAt = nextCronTime(cron, now);
  if (dueAt === undefined) return;
  // The same in every process, since the key decides whether it is stored already.
  const notBefore = Math.min(dueAt, (Math.floor(now / maxAheadMs) + 1) * maxAheadMs);
  const tick: Tick = { repository, worker, cron, issue, dueAt };
  const queue = queueOfTick(tick);
  const key = `${queue} ${notBefore}`;
  await saveDelivery({ key, queue, content: { id: key, event: scheduleEvent, payload: tick, notBefore } });
}

function queueOfTick({ repository, worker, cron, issue }: Tick): string {
  return `${queueIn(repository, issue)} schedule ${worker} ${cron}`;
}

/** True for a push to the default branch that changes the settings or a worker. */
export function mayChangeTriggers({ ref, forced, repository, commits }: PushPayload): boolean {
  if (ref !== `refs/heads/${repository.default_branch}`) return false;
  const files = commits.flatMap(({ added, modified, removed }) => [...added, ...modified, ...removed]);
  return forced || files.some((file) => /^\.github\/(golem-forge\.yml|workers\/)/.test(file));
}

/** Starts the workers whose triggers match an event of an issue. */
export const issueTriggered = defineHandler(IssuePayload, {
  queue: (payload) => queueOf(payload, payload.issue.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.issue.updated_at, scope) ??
    ignoreAuthor({ user: payload.sender }, payload.sender, scope.appId),
  handle: (payload, context) => startTriggered("issues", payload, payload.issue, context),
});

/** Starts the workers whose triggers match an event of a pull request. */
export const pullRequestTriggered = defineHandler(PullRequestPayload, {
  queue: (payload) => queueOf(payload, payload.pull_request.number),
  ignore: (payload, scope) =>
    ignoreThread(payload, payload.pull_request.updated_at, scope) ??
    (hasRunBranch(payload) ? undefined : ignoreAuthor({ user: payload.sender }, payload.sender, scope.appId)),
  handle: async (payload, context) => {
    const { number, head } = payload.pull_request;
    const { thread: _, ...repository } = threadOf(payload, number);
    // It may already have conflicts, which otherwise only a later push to the base would reveal.
    if (head && hasRunBranch(payload)) await saveMergeCheck({ repository, number }, `head ${head.sha}`, context);
    await startTriggered("pull_request", payload, payload.pull_request, context);
  },
});

/** True for a pull request from a branch that a run made. In a fork, anyone can give a branch such a name. */
function hasRunBranch({ pull_request: { head }, repository }: z.infer<typeof PullRequestPayload>): boolean {
  return head !== undefined && head.repo?.id === repository.id && isRunBranch(head.ref);
}

/**
 * True if an app caused the event with a person's token, or GitHub does not say. Throws an OutageError while GitHub may not have
 * recorded the event yet. Of a push, it does not say whose app sent it.
 */
async function isViaApp(
  event: "issues" | "pull_request",
  payload: ThreadPayload,
  { number, updated_at: at = new Date(), performed_via_github_app: app }: TriggeringThread,
  context: DeliveryContext,
): Promise<boolean> {
  const type = RecordedType.safeParse(payload.action).data;
  const { label, assignee, requested_reviewer: reviewer, sender } = payload;
  if (context.allowAppComments || type === undefined) return false;
  if (event === "issues" && type === "opened") return Boolean(app);
  const subject = type === "labeled" ? label?.name : (type === "review_requested" ? reviewer : assignee)?.login;
  const thread = threadOf(payload, number);
  const found = await context.openGitHub(thread).wasViaApp(number, { type, byId: sender?.id ?? 0, subject, at });
  if (found === undefined && context.attempts <= maxAttemptsForRecord) {
    throw new OutageError(`GitHub has not recorded yet who caused the event ${type} of #${number}.`);
  }
  const isUntrusted = found ?? true;
  if (isUntrusted) {
    const { owner, repo } = thread;
    context.log.info(`${sender?.login} did not cause the event ${type} of ${owner}/${repo}#${number} in person.`);
  }
  return isUntrusted;
}

/** Starts the workers whose triggers match. Posts why some did not start, for people with write access. */
export async function startTriggered(
  event: "issues" | "pull_request",
  payload: ThreadPayload,
  thread: TriggeringThread,
  context: DeliveryContext,
): Promise<void> {
  const { action: type, sender, label, assignee, requested_reviewer: reviewer } = payload;
  const { number, updated_at: at } = thread;
  if (thread.state === "closed" || thread.locked || ignoreAuthor({ user: sender }, sender, context.appId)) return;
  const location = locationOf(payload.repository, payload.installation.id, at);
  if (location) await context.runs().reportLocation(location);

  const ref = threadOf(payload, number);
  const subject = label?.name ?? assignee?.login ?? reviewer?.login ?? "";
  const deliveryId = `trigger ${threadEventKey(payload, number, at) ?? context.deliveryId} ${subject}`;
  const { problems, pause } = await context.runs().startTriggered({
    event,
    type,
    author: thread.user?.login ?? "ghost",
    labels: thread.labels.map(({ name }) => name),
    label: label?.name,
    assignee: (type === "review_requested" ? reviewer : assignee)?.login,
    baseBranch: thread.base?.ref,
    origin: {
      ...ref,
      isPullRequest: event === "pull_request",
      requestedBy: sender?.login ?? "ghost",
      requestedById: sender?.id,
    },
    isViaApp: () => isViaApp(event, payload, thread, context),
    seen: at && { at, title: thread.title ?? "", body: thread.body ?? "" },
    deliveryId,
  });
  await updateTriggers(ref, context);
  if (pause) await reportPause(pause, ref, context);
  if (problems.length === 0) return;
  const body = context.sanitize(problems.join("\n\n"));
  await postComment(context.openGitHub(ref), { thread: number, name: `reply/${deliveryId}`, body });
}
