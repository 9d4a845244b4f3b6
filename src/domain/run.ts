import { createHash } from "node:crypto";
import { z } from "zod";
import { canonicalJson } from "./approval.ts";
import type { Task, ToolResult } from "./result.ts";
import { WorkerDefinition } from "./worker.ts";

/**
 * The issue or pull request that a run belongs to, and the comment that started it. The repository id is permanent; the
 * store keeps installation, owner and name up to date.
 */
export const RunOrigin = z.object({
  /** GitHub's id of the repository; undefined in old runs until a delivery reports it. */
  repositoryId: z.number().optional(),
  installationId: z.number(),
  owner: z.string(),
  repo: z.string(),
  /** The number of the issue or pull request. */
  thread: z.number(),
  isPullRequest: z.boolean(),
  /** The comment that started the run; undefined if the text of the issue did. */
  commentId: z.number().optional(),
  requestedBy: z.string(),
  /** The account id of the person; undefined in runs stored before it was kept, and in programs. */
  requestedById: z.number().optional(),
  /** The event that started the run, such as `issues: labeled`; undefined for a command. */
  trigger: z.string().optional(),
});
export type RunOrigin = z.infer<typeof RunOrigin>;

/** The beginning of the trigger of a scheduled run, before its cron expression. */
export const scheduleTrigger = "schedule: ";

/** The answer of a scheduled run that leaves no trace in its thread. */
export const nothingToDo = "Nothing to do.";

export function isScheduled({ trigger }: Pick<RunOrigin, "trigger">): boolean {
  return trigger?.startsWith(scheduleTrigger) === true;
}

const unansweredOutcomes = [
  z.object({ kind: z.literal("failed"), reason: z.string() }),
  z.object({ kind: z.literal("limited"), limit: z.string(), reason: z.string() }),
  /** `reason`: a sentence, if it was not cancelled by a command. */
  z.object({ kind: z.literal("cancelled"), by: z.string(), reason: z.string().optional() }),
] as const;

/** The outcome of a run. Every run ends with exactly one. */
export const RunOutcome = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("answered"), text: z.string() }),
  ...unansweredOutcomes,
]);
export type RunOutcome = z.infer<typeof RunOutcome>;

/** The outcome as the worker machine remembers it: the text of an answer is in the log. */
export const SnapshotOutcome = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("answered") }),
  ...unansweredOutcomes,
]);
export type SnapshotOutcome = z.infer<typeof SnapshotOutcome>;

export const TokenUsage = z.object({
  inputTokens: z.number(),
  outputTokens: z.number(),
  cachedInputTokens: z.number().optional(),
});
export type TokenUsage = z.infer<typeof TokenUsage>;

/** The properties of a run that are fixed when it is created, except for the location of its repository. */
export const RunSpec = z.object({
  id: z.string(),
  rootId: z.string(),
  parentId: z.string().optional(),
  /** The tool call of the parent that this run answers. */
  parentCallId: z.string().optional(),
  /** 0 for a root run. */
  depth: z.number(),
  /** Worker names from the root, such as `fixer -> tester`. */
  workerPath: z.string(),
  worker: WorkerDefinition,
  /** The origin of the worker file, which decides whether its `tools.ts` is trusted. */
  workerSource: z.enum(["deployment", "repository"]),
  /** `provider:model`, fixed at the start so that a new deployment does not change runs in progress. */
  model: z.string(),
  origin: RunOrigin,
  /** The text after the command, verbatim, to suggest the same command again. */
  task: z.string().optional(),
  /** The title of the issue or pull request when the run started. */
  threadTitle: z.string().optional(),
  /** US dollars: the median cost of this worker's earlier runs in this repository when the run started. */
  usualCost: z.number().optional(),
  /** An earlier root run whose conversation this one continues. */
  continues: z.string().optional(),
  /** The branch of the pull request that the run was started on and pushes to. Default: a branch of its own. */
  pullRequestBranch: z.string().optional(),
  /** The branch that this pull request is to be merged into. */
  pullRequestBase: z.string().optional(),
  /** True for a run on the pull request of a fork, which only reads. */
  isFork: z.boolean().optional(),
  /** For a child run: the number of its parent's stored change sets that it starts from. */
  parentChanges: z.number().optional(),
  /** GitHub's id of the webhook delivery that started it, for logs. */
  delivery: z.string().optional(),
  createdAt: z.number(),
});
export type RunSpec = z.infer<typeof RunSpec>;

/** A worker with the origin of its file. */
export interface FoundWorker extends Pick<RunSpec, "worker"> {
  source: RunSpec["workerSource"];
  /** The model of its program, for a worker that does not name one. */
  model?: string | undefined;
}

/** Returns the SHA-256 of a worker's definition, to which the approval of a call that starts it is bound. */
export function digestOfWorker({ worker, source, model }: FoundWorker): string {
  return createHash("sha256").update(canonicalJson({ worker, source, model })).digest("hex");
}

const runBranchPrefix = "golem/";

/** True for the name of a branch that a run made. */
export function isRunBranch(branch: string): boolean {
  return branch.startsWith(runBranchPrefix);
}

/** Returns the only branch that a run may push: that of its pull request, or its root's own, `golem/<thread>-<run>`. */
export function branchOf({ rootId, origin, pullRequestBranch }: RunSpec): string {
  return pullRequestBranch ?? `${runBranchPrefix}${origin.thread}-${rootId}`;
}

const pushingTools = ["open_pull_request", "update_pull_request", "git_push", "undo_push"];

/** True for a tool that pushes to the run's branch, in any spelling that a call may have. */
export function isPushingTool(name: string): boolean {
  return pushingTools.includes(name.toLowerCase().replaceAll("-", "_"));
}

const PushResult = z.object({ pushed: z.object({ commit: z.string() }) });
const PullRequestResult = z.object({ data: z.object({ number: z.number() }) });

/**
 * Returns the data with which a call reports a push, even if it failed afterwards. Undefined for other tools: results of
 * servers and other programs may have the same form.
 */
export function pushDataOf(tool: string, { value, error }: ToolResult): unknown {
  if (!isPushingTool(tool)) return undefined;
  return error?.details ?? ("data" in value ? value.data : undefined);
}

/** Returns the commit that a call pushed; undefined if there is none. */
export function pushedCommit(tool: string, result: ToolResult): string | undefined {
  return PushResult.safeParse(pushDataOf(tool, result)).data?.pushed.commit;
}

/** Returns the pull request that a call opened or updated; undefined if there is none. Only pushing tools count. */
export function openedPullRequest(tool: string, { value, error }: ToolResult): number | undefined {
  if (error || value.kind !== "pull_request" || !isPushingTool(tool)) return undefined;
  return PullRequestResult.safeParse(value).data?.data.number;
}

/** The states of the worker machine, by the name of the innermost one. */
export const RunState = z.enum([
  "preparing",
  "callingModel",
  "retrying",
  "evaluatingAnswer",
  "reviewing",
  "evaluatingCalls",
  "executing",
  "awaitingApproval",
  "awaitingAnswer",
  "awaitingChild",
  "checkingLimits",
  "awaitingBudget",
  "idle",
  "interrupted",
  "ended",
]);
export type RunState = z.infer<typeof RunState>;

/** A tool call without a result yet, as the machine remembers it: without its arguments. */
export const OpenCall = z.object({
  callId: z.string(),
  tool: z.string(),
  answeredBy: z.enum(["tool", "person", "worker"]),
  status: z.enum(["awaitingApproval", "running"]),
});
export type OpenCall = z.infer<typeof OpenCall>;

/** True for a question that a person has to answer. */
export function isOpenQuestion({ answeredBy, status }: OpenCall): boolean {
  return answeredBy === "person" && status === "running";
}

/** Everything a front end needs to show a run. Derived from the store alone. */
export interface RunView {
  spec: RunSpec;
  state: RunState;
  /** The current activity, as a sentence. */
  activity: string;
  tasks: Task[];
  steps: number;
  usage: TokenUsage;
  /** Input and output tokens, including those of children. Unlike `usage`, it is known for a run whose log was removed. */
  tokens: number;
  /** US dollars; undefined if the model's price is unknown. */
  cost?: number;
  openCalls: OpenCall[];
  pullRequest?: number;
  /** The thread that the conversation is in: where the last message, review or check result came from. */
  replyThread?: number;
  /** One line for each model answer and finished tool call, oldest first. */
  log: string[];
  outcome?: RunOutcome;
  /** The text of the last result, which may be empty, if it could not be posted in the thread. Only for the status. */
  unposted?: string | undefined;
  children: RunView[];
  startedAt: number;
  updatedAt: number;
}

/** The phase of a run's life, as people distinguish it. Every view of a run maps it to its own words and icons. */
export type RunPhase =
  | RunOutcome["kind"]
  | "starting"
  | "working"
  | "retrying"
  | "awaitingApproval"
  | "awaitingAnswer"
  | "awaitingChild"
  | "awaitingBudget"
  | "awaitingReview"
  | "awaitingMessage"
  | "paused";

/** Classifies a run by its outcome or, while it is live, by its state. A run with an open pull request waits for a review. */
export function phaseOf({
  outcome,
  state,
  pullRequest,
}: {
  outcome?: Pick<RunOutcome, "kind"> | undefined;
  state: RunState;
  pullRequest?: number | undefined;
}): RunPhase {
  if (outcome) return outcome.kind;
  switch (state) {
    case "preparing":
      return "starting";
    case "retrying":
    case "awaitingApproval":
    case "awaitingAnswer":
    case "awaitingChild":
    case "awaitingBudget":
      return state;
    case "idle":
      return pullRequest === undefined ? "awaitingMessage" : "awaitingReview";
    case "interrupted":
      return "paused";
    case "callingModel":
    case "evaluatingAnswer":
    case "reviewing":
    case "evaluatingCalls":
    case "executing":
    case "checkingLimits":
    case "ended":
      return "working";
  }
}

const alphabet = "abcdefghjkmnpqrstvwxyz0123456789";

/** Returns an id that is easy to read aloud and to type, without i, l, o and u. The same seed gives the same id. */
export function shortId(seed: string, length: number): string {
  const bytes = createHash("sha256").update(seed).digest();
  return Array.from(bytes.subarray(0, length), (byte) => alphabet[byte % alphabet.length]).join("");
}
