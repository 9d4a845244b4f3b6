import { vi } from "vitest";
import type { Approval } from "#domain/approval.ts";
import type { RunEvent } from "#domain/events.ts";
import type { Permission } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import { reviewCalls } from "#runtime/effects/tool-calls.ts";
import type { FrontEnd, PostOptions } from "#runtime/front-end.ts";
import type { RuntimeEffect } from "#runtime/runtime-effect.ts";
import { ActiveRun } from "#runtime/scheduler/active-run.ts";
import { createLiveOutput } from "#runtime/scheduler/live-output.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Decision, Effect } from "#runtime/store/store.ts";
import { childStep, type StepChanges } from "#sandbox/sandbox.ts";
import { createToolbox } from "#toolsets/toolbox.ts";
import { memoryWorkspace } from "./memory-workspace.ts";
import { sampleEffect, sampleRun, sampleSpec, sampleStep } from "./store-samples.ts";
import { aTool } from "./toolbox-world.ts";

const base = { commit: "c".repeat(40), branch: "main" };

export interface EffectWorldOptions {
  tools?: readonly NamedTool[];
  /** GitHub's answer to requests for a permission. */
  permission?: (login: string) => Promise<Permission>;
  settings?: string;
  repositoryId?: number;
  /** The files of the workspace. */
  files?: Record<string, string>;
  /** False for a run whose repository is still being opened. Default: true. */
  isOpened?: boolean;
  /** Changes to the spec of the run. */
  spec?: Partial<RunSpec>;
}

/** Creates a run, `r1`, in an in-memory store, with the resources and services that effect handlers need. */
export async function effectWorld({
  tools = [aTool()],
  permission = async () => "write",
  settings,
  repositoryId,
  files = {},
  isOpened = true,
  spec: changes = {},
}: EffectWorldOptions = {}) {
  const store = openMemoryStore();
  let pending: StepChanges["changes"] = [];
  const tracking = {
    pendingChanges: (step: string) => (pending.length > 0 ? { step, changes: pending } : undefined),
    markStored: vi.fn(),
    rollback: vi.fn(() => {
      pending = [];
    }),
  };
  const confirmPermission = vi.fn(permission);
  const posts: { kind: string; options: PostOptions }[] = [];
  const post = (kind: string) => async (_view: unknown, _subject: unknown, options: PostOptions) => {
    posts.push({ kind, options });
    return posts.length;
  };
  const postRequest = (kind: string) => async (view: unknown, subject: unknown, options: PostOptions) => {
    const id = await post(kind)(view, subject, options);
    return [{ id, digest: `digest ${id}`, updatedAt: id }];
  };
  const frontEnd: Required<FrontEnd> = {
    canShow: () => true,
    showStatus: (view, options) => post("status")(view, undefined, options),
    showApproval: postRequest("approval"),
    askQuestion: post("question"),
    showToolReply: postRequest("reply"),
    isUnchanged: async () => true,
    showAnswer: post("answer"),
    askForBudget: (view, options) => post("budget")(view, undefined, options),
    showOutcome: (view, options) => post("outcome")(view, undefined, options),
  };
  const clock = { now: 10_000 };
  const services = { store, frontEnd, now: () => clock.now, approvalMs: 1_000, statusIntervalMs: 500 };

  const { origin, ...sample } = sampleSpec("r1", changes);
  const spec = { ...sample, origin: { ...origin, ...(repositoryId && { repositoryId }) } };
  await store.ingest({
    run: { ...sampleRun("r1"), spec },
    events: isOpened ? [{ runId: "r1", event: { type: "sandbox.opened", ...base } }] : [],
  });
  const run = new ActiveRun(spec, {
    store,
    live: createLiveOutput(),
    environment: {
      catalog: { find: () => Promise.reject(new Error("There is no catalog")), list: async () => [] },
      repository: () => ({
        readFile: async () => settings,
        listNames: async () => [],
        getPermission: permission,
        confirmPermission,
        findAccount: async () => undefined,
        isTeamMember: async () => false,
      }),
      openWorkspace: async () => ({
        base,
        changeSets: (await store.changesOf("r1")).length,
        tracking,
        readFile: async (path) => Buffer.from(files[path] ?? ""),
        diff: async () => "the diff",
        openToolbox: (history) => createToolbox({ tools, workspace: memoryWorkspace(), history }),
      }),
      instructions: () => "",
    },
  });

  const append = (...events: RunEvent[]) => store.ingest({ events: events.map((event) => ({ runId: "r1", event })) });
  /** Plays an answer of the model that calls a tool. */
  const answer = (tool: string, args: unknown, callId = "call-1") =>
    append({
      type: "model.answered",
      text: "",
      calls: [{ callId, tool, args }],
      messages: [],
      usage: { inputTokens: 1, outputTokens: 1 },
      finishReason: "tool-calls",
      lastSeenId: 0,
    });

  function effect<Request extends RuntimeEffect>(request: Request, changes: Partial<Effect> = {}): Effect<Request> {
    return { key: "k1", runId: "r1", queue: "work", dueAt: 0, attempts: 1, ...changes, request };
  }

  return {
    store,
    run,
    services,
    clock,
    posts,
    tracking,
    confirmPermission,
    effect,
    append,
    answer,
    signal: new AbortController().signal,
    /** Changes a file of the sandbox, for use by a tool. */
    changeFile(path: string): void {
      pending = [...pending, { path, content: new Uint8Array(1), mode: "100644" }];
    },
    /** Ends the run, and removes its log and its changes. */
    async removeLog(): Promise<void> {
      await store.advance(sampleStep("r1", { status: "done" }));
      await store.removeExpired({ runsEndedBefore: Number.MAX_SAFE_INTEGER, deliveriesBefore: 0 });
    },
    /** Plays the end of a child, `r1-a`, that hands over changes of these files. */
    async finishChild(...paths: string[]): Promise<void> {
      const outcome = { kind: "answered" as const, text: "Done." };
      const usage = { inputTokens: 1, outputTokens: 1 };
      const changes = paths.map((path) => ({ path, content: new Uint8Array(2), mode: "100644" as const }));
      await store.ingest({ events: [], effects: [sampleEffect("r1", "child")] });
      await store.completeEffect({
        runId: "r1",
        key: "child",
        events: [{ runId: "r1", event: { type: "child.finished", callId: "call-2", childId: "r1-a", outcome, usage } }],
        parentChanges: { runId: "r1", changes: { step: childStep("r1-a"), changes } },
      });
    },
    /** Performs an effect and returns its result, or the error it threw. */
    perform: <Request extends RuntimeEffect>(handler: EffectHandler<Request>, performed: Effect<Request>) =>
      handler.perform(performed, run, new AbortController().signal),
    /** Plays a tool call that needs approval and is approved by a person. */
    async approvedCall(tool: string, args: unknown, decision: Partial<Decision> = {}): Promise<Approval> {
      await answer(tool, args);
      const reviewed = await reviewCalls(services).perform(
        effect({ kind: "calls.review" }),
        run,
        new AbortController().signal,
      );
      const [approval] = reviewed.approvals ?? [];
      if (!approval) throw new Error(`The call needs no approval: ${JSON.stringify(reviewed.events)}`);
      await store.ingest({
        events: [],
        effects: [{ key: "review", runId: "r1", queue: "work", request: { kind: "calls.review" } }],
      });
      await store.completeEffect({ runId: "r1", key: "review", ...reviewed });
      const decided = { approvalId: approval.id, decision: "approved" as const, by: "ada", now: clock.now };
      await store.decideApproval({ ...decided, ...decision });
      return approval;
    },
  };
}
