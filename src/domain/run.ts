import { z } from "zod";
import type { Task } from "./result.ts";
import { WorkerDefinition } from "./worker.ts";

/**
 * Where a run comes from and shows itself: an issue or pull request, and the comment that asked for it. The repository is
 * the one of this number, for ever; installation, owner and name are as they were when the run was made, and the store
 * gives them as they are today.
 */
export const RunOrigin = z.object({
  /** GitHub's number of it; undefined in runs from before it was kept, until a delivery tells. */
  repositoryId: z.number().optional(),
  installationId: z.number(),
  owner: z.string(),
  repo: z.string(),
  /** The number of the issue or pull request. */
  thread: z.number(),
  isPullRequest: z.boolean(),
  /** The comment that started it; undefined when it was the issue's own text. */
  commentId: z.number().optional(),
  requestedBy: z.string(),
});
export type RunOrigin = z.infer<typeof RunOrigin>;

const unansweredOutcomes = [
  z.object({ kind: z.literal("failed"), reason: z.string() }),
  z.object({ kind: z.literal("limited"), limit: z.string(), reason: z.string() }),
  z.object({ kind: z.literal("cancelled"), by: z.string() }),
] as const;

/** How a run ended. Every run ends with exactly one of these. */
export const RunOutcome = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("answered"), text: z.string() }),
  ...unansweredOutcomes,
]);
export type RunOutcome = z.infer<typeof RunOutcome>;

/** The outcome as the worker machine remembers it: the text of an answer is in the log. */
export const RunEnd = z.discriminatedUnion("kind", [z.object({ kind: z.literal("answered") }), ...unansweredOutcomes]);
export type RunEnd = z.infer<typeof RunEnd>;

export const TokenUsage = z.object({
  inputTokens: z.number(),
  outputTokens: z.number(),
  cachedInputTokens: z.number().optional(),
});
export type TokenUsage = z.infer<typeof TokenUsage>;

/** What is fixed when a run is made and never changes after, but for how its repository is called. */
export const RunSpec = z.object({
  id: z.string(),
  rootId: z.string(),
  parentId: z.string().optional(),
  /** The parent's tool call this run answers. */
  parentCallId: z.string().optional(),
  /** 0 for a root run. */
  depth: z.number(),
  /** Names from the root to this worker, `fixer -> tester`. */
  workerPath: z.string(),
  worker: WorkerDefinition,
  /** Who wrote the worker: the deployment, whose `tools.ts` may run, or the repository. */
  workerSource: z.enum(["deployment", "repository"]),
  /** `provider:model`, settled at the start so that a redeployment does not change a run under way. */
  model: z.string(),
  origin: RunOrigin,
  /** What the person wrote behind the command, as they wrote it; for the command that tries again. */
  task: z.string().optional(),
  /** An earlier root run whose conversation this one continues. */
  continues: z.string().optional(),
  /** For a child: how many of its parent's stored changes it starts from. */
  parentChanges: z.number().optional(),
  createdAt: z.number(),
});
export type RunSpec = z.infer<typeof RunSpec>;

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
  "idle",
  "interrupted",
  "ended",
]);
export type RunState = z.infer<typeof RunState>;

/** A call of the model that is not answered yet, as the machine remembers it: never its arguments. */
export const OpenCall = z.object({
  callId: z.string(),
  tool: z.string(),
  answeredBy: z.enum(["tool", "person", "worker"]),
  status: z.enum(["awaitingApproval", "running"]),
});
export type OpenCall = z.infer<typeof OpenCall>;

/** What a person sees of a run: everything a front end needs to draw it, derived from the store alone. */
export interface RunView {
  spec: RunSpec;
  state: RunState;
  /** One sentence about what is going on. */
  activity: string;
  tasks: Task[];
  steps: number;
  usage: TokenUsage;
  /** US dollars; undefined where the model's price is not known. */
  cost?: number;
  openCalls: OpenCall[];
  /** One line per finished tool call and model answer, oldest first. */
  log: string[];
  outcome?: RunOutcome;
  children: RunView[];
  startedAt: number;
  updatedAt: number;
}
