import { Cron } from "croner";
import { z } from "zod";
import { matchesPattern, matchesSomePath } from "#text/path-pattern.ts";

const Patterns = z.array(z.string().min(1).max(200)).min(1).max(50);

/** Conditions that all have to hold. */
const filters = {
  /** For `labeled`: the label that was added. For the others: a label of the issue or pull request. */
  labels: Patterns.optional(),
  /** Logins of the person who opened the issue or pull request. */
  authors: Patterns.optional(),
};

const IssueTrigger = z.strictObject({
  types: z.array(z.enum(["opened", "reopened", "labeled", "assigned"])).min(1),
  ...filters,
});

const PullRequestTrigger = z.strictObject({
  types: z
    .array(z.enum(["opened", "reopened", "synchronize", "labeled", "ready_for_review", "review_requested", "assigned"]))
    .min(1),
  ...filters,
  /** Base branches; `*` matches any part of a name. */
  branches: Patterns.optional(),
  /** At least one changed file has to match. Patterns as in CODEOWNERS, with `{a,b}`. */
  paths: Patterns.optional(),
});

/** GitHub Actions has the same limit. */
const minIntervalMs = 5 * 60_000;

const hourMs = 60 * 60_000;
const dayMs = 24 * hourMs;
/** Every pair of dates that follow each other occurs in this time, a 29 February included. */
const leapCycleMs = (4 * 365 + 1) * dayMs;

/** Returns when a cron expression is next due, in UTC; undefined when it never is again. */
export function nextCronTime(cron: string, after: number): number | undefined {
  return openCron(cron).nextRun(new Date(after))?.getTime();
}

function openCron(cron: string): Cron {
  return new Cron(cron, { timezone: "UTC", mode: "5-part" });
}

function findCronProblem(cron: string): string | undefined {
  try {
    const opened = openCron(cron);
    // The library also takes a date, which would make the file invalid as soon as it has passed.
    if (/\dT\d/.test(cron)) throw new Error("A date is not a cron expression.");
    // Always compared from the same midnight: a file must not be valid at one time of day and invalid at another.
    const first = opened.nextRun(new Date(-1_000));
    if (!first) return "is never due";
    let last = first;
    for (
      let next = opened.nextRun(last);
      next && startOfHour(next) === startOfHour(last);
      next = opened.nextRun(last)
    ) {
      if (next.getTime() - last.getTime() < minIntervalMs) return describeInterval(last, next);
      last = next;
    }
    // The minutes are the same in each hour, so only the end of an hour that another one follows is left to compare.
    const isShort = first.getTime() + hourMs - last.getTime() < minIntervalMs;
    const hour = isShort ? findConsecutiveHour(opened, first) : undefined;
    if (hour === undefined) return undefined;
    const from = startOfHour(first);
    return describeInterval(hour - hourMs + last.getTime() - from, hour + first.getTime() - from);
  } catch {
    return 'must be five fields in UTC, such as "0 6 * * 1"';
  }
}

/** Returns the start of an hour in which the expression is due, as it is in the hour before. */
function findConsecutiveHour(cron: Cron, first: Date): number | undefined {
  const day = startOfDay(first);
  let hour = startOfHour(first);
  // The hours are the same on each day, so only the night between two of its days is left to compare.
  while (hour < day + dayMs - hourMs) {
    const next = cron.nextRun(new Date(hour + hourMs - 1_000));
    if (!next || startOfDay(next) !== day) return undefined;
    if (startOfHour(next) === hour + hourMs) return startOfHour(next);
    hour = startOfHour(next);
  }
  return startOfHour(first) === day && hasConsecutiveDays(cron, first) ? day + dayMs : undefined;
}

function startOfHour(date: Date): number {
  return date.getTime() - (date.getTime() % hourMs);
}

function startOfDay(date: Date): number {
  return date.getTime() - (date.getTime() % dayMs);
}

function hasConsecutiveDays(cron: Cron, first: Date): boolean {
  for (let day = startOfDay(first); day < leapCycleMs; ) {
    const next = cron.nextRun(new Date(day + dayMs - 1_000));
    if (!next) return false;
    if (startOfDay(next) === day + dayMs) return true;
    day = startOfDay(next);
  }
  return false;
}

function describeInterval(...dates: [number | Date, number | Date]): string {
  const [due, next] = dates.map((date) => new Date(date).toISOString().slice(11, 16));
  return `may be due once every five minutes at most, but this one is due at ${due} and at ${next}`;
}

const Schedule = z.strictObject({
  /** Five fields, in UTC. */
  cron: z.string(),
  /** The number of an open issue. The run reports there, and posts nothing if there was nothing to do. */
  issue: z.number().int().positive(),
  task: z.string().min(1).max(10_000),
});
export type Schedule = z.infer<typeof Schedule>;

/** The events that start a worker without a command. */
export const Triggers = z.strictObject({
  issues: IssueTrigger.optional(),
  pull_request: PullRequestTrigger.optional(),
  schedule: z.array(Schedule).max(10).optional(),
  /** The task of runs that an issue or a pull request starts. Default: the issue or pull request itself. */
  task: z.string().max(10_000).optional(),
});
export type Triggers = z.infer<typeof Triggers>;

/** Triggers in a file. Stored runs hold those of their worker, and must stay readable whatever is checked here. */
export const TriggersOfFile = Triggers.superRefine(({ schedule = [] }, context) => {
  for (const [index, { cron }] of schedule.entries()) {
    const problem = findCronProblem(cron);
    if (!problem) continue;
    context.addIssue({
      code: "custom",
      path: ["schedule", index, "cron"],
      message: `A cron expression ${problem}`,
    });
  }
});

/** Returns the fields at a path of triggers, for suggestions about typos. */
export function triggerFieldsAt([event]: readonly PropertyKey[]): string[] {
  switch (event) {
    case undefined:
      return Object.keys(Triggers.shape);
    case "issues":
      return Object.keys(IssueTrigger.shape);
    case "pull_request":
      return Object.keys(PullRequestTrigger.shape);
    case "schedule":
      return Object.keys(Schedule.shape);
    default:
      return [];
  }
}

/** The parts of an issue or pull request event that triggers use. */
export interface ThreadEvent {
  event: "issues" | "pull_request";
  /** The webhook's action, such as `labeled`. */
  type: string;
  author: string;
  /** The labels of the issue or pull request. */
  labels: string[];
  /** The label that was added. */
  label?: string | undefined;
  /** The person who was assigned, or whose review was requested. */
  assignee?: string | undefined;
  baseBranch?: string | undefined;
}

/**
 * True if a trigger matches an event, regardless of its `paths`. Assignments and requested reviews count for the machine
 * user alone, since an App can be neither assigned nor requested.
 */
export function matchesEvent(triggers: Triggers, event: ThreadEvent, machineUser: string | undefined): boolean {
  const trigger: z.infer<typeof IssueTrigger> | z.infer<typeof PullRequestTrigger> | undefined = triggers[event.event];
  if (!trigger || !(trigger.types as string[]).includes(event.type)) return false;
  if (event.type === "assigned" || event.type === "review_requested") {
    if (!machineUser || event.assignee?.toLowerCase() !== machineUser.toLowerCase()) return false;
  }
  const labels = event.type === "labeled" ? [event.label ?? ""] : event.labels;
  const matches = (patterns: string[] | undefined, values: string[]) =>
    !patterns ||
    values.some((value) => patterns.some((pattern) => matchesPattern(pattern.toLowerCase(), value.toLowerCase())));
  const branches = "branches" in trigger ? trigger.branches : undefined;
  return (
    matches(trigger.labels, labels) &&
    matches(trigger.authors, [event.author]) &&
    (!branches || branches.some((pattern) => matchesPattern(pattern, event.baseBranch ?? "")))
  );
}

/** True if a changed file matches the trigger's `paths`, or if the trigger has none. */
export function matchesPaths({ pull_request }: Triggers, files: readonly string[]): boolean {
  return matchesSomePath(pull_request?.paths, files);
}
