import type { Approval } from "#domain/approval.ts";
import type { RunEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import type { WorkerContext } from "#machines/worker-context.ts";
import type { WorkerSnapshot } from "#machines/worker-snapshot.ts";
import type { Advance, HourlyUsage, NewEffect, NewRun } from "#runtime/store/store.ts";

const worker = WorkerDefinition.parse({ name: "fixer", instructions: "Fix what is asked." });

/** Creates a root run, by default on ada/engine#7. */
export function sampleSpec(id: string, changes: Partial<RunSpec> = {}): RunSpec {
  return {
    id,
    rootId: id,
    depth: 0,
    workerPath: "fixer",
    worker,
    workerSource: "deployment",
    model: "scripted:model",
    origin: { installationId: 1, owner: "ada", repo: "engine", thread: 7, isPullRequest: false, requestedBy: "ada" },
    createdAt: 1_000,
    ...changes,
  };
}

export function sampleRun(id: string, effects: NewEffect[] = [], changes: Partial<RunSpec> = {}): NewRun {
  return { spec: sampleSpec(id, changes), snapshot: sampleSnapshot("idle"), effects };
}

export function sampleSnapshot(value: WorkerSnapshot["value"], changes: Partial<WorkerContext> = {}): WorkerSnapshot {
  const { mode, limits } = worker;
  const context = {
    mode,
    limits,
    hasBase: true,
    steps: 0,
    tokens: 0,
    cost: 0,
    consecutiveFailures: 0,
    unreadMessages: 0,
    requestedCalls: 0,
    openCalls: [],
    isRoot: true,
    pausesAtCostLimit: false,
    isPullRequestClosed: false,
    wasPaused: false,
    mismatches: 0,
    checkRepairs: 0,
    ...changes,
  };
  return { version: 1, value, context, workedMs: 0 };
}

export function sampleEffect(runId: string, key: string, changes: Partial<NewEffect> = {}): NewEffect {
  return { key, runId, queue: "work", request: { kind: "model.call" }, ...changes };
}

export function said(text: string): RunEvent {
  return { type: "message.received", kind: "comment", text, by: "ada" };
}

export function sampleStep(runId: string, changes: Partial<Advance> = {}): Advance {
  return {
    runId,
    version: 0,
    consumed: [],
    seen: 0,
    snapshot: sampleSnapshot("callingModel"),
    status: "active",
    effects: [],
    ...changes,
  };
}

/** Creates a pending approval that expires at 5,000. */
export function sampleApproval(runId: string, id: string, changes: Partial<Approval> = {}): Approval {
  return {
    id,
    runId,
    rootId: runId,
    workerPath: "fixer",
    callId: `call-${id}`,
    tool: "write_file",
    args: { path: "README.md", content: "hello" },
    baseCommit: "a".repeat(40),
    digest: "d".repeat(64),
    reason: "It writes a file.",
    status: "pending",
    requestedAt: 1_000,
    expiresAt: 5_000,
    ...changes,
  };
}

/** Creates the usage of one model call of the fixer in the first hour of 1970. */
export function sampleUsage(changes: Partial<HourlyUsage> = {}): HourlyUsage {
  return {
    rootId: "r1",
    worker: "fixer",
    origin: { repositoryId: 11, installationId: 1, owner: "ada", repo: "engine" },
    hour: 0,
    modelCalls: 1,
    inputTokens: 100,
    outputTokens: 10,
    cachedInputTokens: 50,
    cost: 0.25,
    ...changes,
  };
}
