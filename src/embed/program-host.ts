import { randomUUID } from "node:crypto";
import { type Approval, canonicalJson, isRevocable } from "#domain/approval.ts";
import { messageOf, UserError } from "#domain/errors.ts";
import type { RunEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { Models } from "#models/models.ts";
import { initialRun } from "#runtime/apply-events.ts";
import { createRunHost, type RunHost } from "#runtime/create-runtime.ts";
import type { RunEnvironment } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import { callsAwaitingAnswer, readableTree } from "#runtime/service/open-questions.ts";
import { type NewEffect, requireRun, type Store } from "#runtime/store/store.ts";
import { readView } from "#runtime/views/read-view.ts";
import type { ApprovalController } from "#ui/approval-controller.ts";
import type { RuntimeUI } from "#ui/runtime-ui.ts";
import { ProgramFrontEnd, person, requestOf } from "./program-front-end.ts";
import type { RunEnd, RunReporter } from "./run-reporter.ts";

export interface ProgramHostOptions {
  store: Store;
  models: Models;
  environment: RunEnvironment;
  approvals: ApprovalController;
  ui: RuntimeUI | undefined;
  reporter: RunReporter;
}

/** Ten years: approvals at a program practically do not expire. */
const approvalMs = 10 * 365 * 24 * 60 * 60_000;
/** The time to wait for running work when the host is closed. */
const closeGraceMs = 2_000;

/** A placeholder, since there is no thread. It is never shown to a model or a person. */
export const localOrigin = { installationId: 0, owner: "local", repo: "local", thread: 1, isPullRequest: false };

export function rootSpec(worker: WorkerDefinition, { depth, model }: { depth: number; model: string }): RunSpec {
  const id = `run-${randomUUID().slice(0, 8)}`;
  return {
    id,
    rootId: id,
    depth,
    workerPath: worker.name,
    worker,
    workerSource: "deployment",
    model,
    origin: { ...localOrigin, requestedBy: person },
    createdAt: Date.now(),
  };
}

/** Runs the workers of a program on the runtime that also runs them on GitHub, one root at a time. */
export class ProgramHost {
  readonly #store: Store;
  readonly #reporter: RunReporter;
  readonly #frontEnd: ProgramFrontEnd;
  readonly #host: RunHost;
  readonly #approvals: ApprovalController;
  #starting: Promise<void> | undefined;
  #current: { rootId: string; ended: PromiseWithResolvers<void> } | undefined;

  constructor({ store, models, environment, approvals, ui, reporter }: ProgramHostOptions) {
    this.#store = store;
    this.#approvals = approvals;
    this.#reporter = reporter;
    this.#frontEnd = new ProgramFrontEnd({
      approvals,
      ui,
      reporter,
      decide: async (decision) => {
        const result = await store.decideApproval(decision);
        if (result.kind !== "unknown") this.#host.scheduler.wake(result.approval.runId);
      },
      deliver: (runId, event) => this.#deliver(runId, event),
      invoke: (runId, call) => this.#invoke(runId, call),
      onOutcome: ({ spec }) => {
        if (this.#current?.rootId === spec.id) this.#current.ended.resolve();
      },
      onError: (error) => this.#fail(error),
    });
    this.#host = createRunHost({
      store,
      models,
      environment,
      frontEnd: this.#frontEnd,
      observers: [reporter],
      live: reporter,
      approvalMs,
      statusIntervalMs: 0,
      // A failed effect is retried. If it keeps failing, the run receives the error.
      onError: (error, { kind }) => kind ?? this.#fail(error),
    });
  }

  /** Resumes the runs in the store that have work left. */
  start(): Promise<void> {
    this.#starting ??= this.#host.start();
    return this.#starting;
  }

  /** Runs a root to its end. The signal interrupts it. Rejects only for a bug. */
  async run(spec: RunSpec, events: readonly RunEvent[], interrupt: AbortSignal): Promise<RunEnd> {
    return this.#follow(spec, interrupt, async () => {
      const runId = spec.id;
      await this.#store.ingest({ run: initialRun(spec), events: events.map((event) => ({ runId, event })) });
      this.#host.scheduler.wake(runId);
    });
  }

  /** Continues a root that another process started. Open approvals and questions are asked again. */
  async resume(spec: RunSpec, interrupt: AbortSignal): Promise<RunEnd> {
    return this.#follow(spec, interrupt, async () => {
      const effects = await reopenRequests(this.#store, spec.id);
      await this.#store.ingest({ events: [], effects });
      for (const runId of new Set([spec.id, ...effects.map((effect) => effect.runId)]))
        this.#host.scheduler.wake(runId);
    });
  }

  /** Passes a message of the person to a run, which reads it before its next step. */
  message(runId: string, text: string): Promise<void> {
    return this.#deliver(runId, { type: "message.received", kind: "comment", text, by: person });
  }

  /** Returns the approvals that can be revoked: those for the session, and those whose call has not begun. */
  async revocableApprovals(): Promise<Approval[]> {
    const stored = this.#current ? await this.#store.approvalsOf(this.#current.rootId) : [];
    const own = stored.filter(isRevocable).map((approval) => [approval.id, approval] as const);
    return [...new Map([...this.#frontEnd.sessionApprovals, ...own]).values()];
  }

  /** Revokes an approval. Identical calls ask again, and its own call does not run if it has not begun. */
  async revokeApproval(id: string): Promise<Approval> {
    const approval = (await this.revocableApprovals()).find((one) => one.id === id.toLowerCase());
    if (!approval) throw new UserError(`Approval ${id} cannot be revoked. /revoke lists those that can.`);
    this.#approvals.revoke(requestOf(approval));
    this.#frontEnd.sessionApprovals.delete(approval.id);
    const revocation = { approvalId: approval.id, by: person, now: Date.now(), effects: [] };
    const result = await this.#store.revokeApproval(revocation);
    if (this.#current && result.kind === "revoked") this.#host.scheduler.wake(approval.runId);
    return approval;
  }

  /** Runs a tool for the person, with the tools and the conversation of this run. */
  invokeTool(runId: string, call: { tool: string; args: unknown }): Promise<void> {
    return this.#invoke(runId, { callId: `manual-${randomUUID().slice(0, 8)}`, ...call });
  }

  /** Closes the host. Unfinished runs continue when another host starts with their store. */
  async close(): Promise<void> {
    this.#frontEnd.withdrawAll();
    await this.#host.shutDown(closeGraceMs);
  }

  async #follow(spec: RunSpec, interrupt: AbortSignal, begin: () => Promise<void>): Promise<RunEnd> {
    const ended = Promise.withResolvers<void>();
    ended.promise.catch(() => {});
    this.#current = { rootId: spec.id, ended };
    const stop = () => {
      this.#frontEnd.withdrawAll();
      this.#deliver(spec.id, { type: "run.stop", by: person }).then(ended.resolve, ended.reject);
    };
    try {
      await this.start();
      // The next run must see the results of tools that the person has called.
      await this.#host.idle();
      await begin();
      if (interrupt.aborted) stop();
      else interrupt.addEventListener("abort", stop, { once: true });
      await ended.promise;
      await this.#host.idle();
      const view = await readView(this.#store, spec.id);
      if (!view) throw new Error(`Run ${spec.id} not found`);
      return { outcome: view.outcome ?? { kind: "interrupted" }, usage: view.usage, cost: view.cost ?? 0 };
    } finally {
      interrupt.removeEventListener("abort", stop);
      this.#current = undefined;
    }
  }

  async #deliver(runId: string, event: RunEvent): Promise<void> {
    await this.#store.ingest({ events: [{ runId, event }] });
    this.#host.scheduler.wake(runId);
  }

  async #invoke(runId: string, call: Omit<EffectOf<"tool.invoke">, "kind" | "by">): Promise<void> {
    await this.start();
    const key = `${runId}/${call.callId}${call.agreed === undefined ? "" : "/agreed"}`;
    await this.#store.ingest({
      events: [],
      effects: [{ key, runId, queue: "work", request: { kind: "tool.invoke", by: person, ...call } }],
    });
    this.#host.scheduler.wake(runId);
  }

  #fail(error: unknown): void {
    if (this.#current) this.#current.ended.reject(error);
    else this.#reporter.status("error", messageOf(error));
  }
}

/** Returns effects that post every open approval and question of a tree again, because the previous posts are lost. */
async function reopenRequests(store: Store, rootId: string): Promise<NewEffect[]> {
  const approvals = (await store.approvalsOf(rootId)).filter(({ status }) => status === "pending");
  const questions = (await readableTree(store, await requireRun(store, rootId))).flatMap((run) =>
    callsAwaitingAnswer(run).map((callId) => ({ runId: run.id, callId })),
  );
  const suffix = `again/${Date.now()}`;
  return [
    ...approvals.map(({ id, runId }): NewEffect => {
      const request = { kind: "approval.post" as const, approvalId: id };
      return { key: `${runId}/${id}/${suffix}`, runId, queue: "thread", request };
    }),
    ...questions.map(({ runId, callId }): NewEffect => {
      const request = { kind: "question.post" as const, callId };
      return { key: `${runId}/${callId}/${suffix}`, runId, queue: "thread", request };
    }),
  ];
}

/** Revokes an approval, or lists the ones that can be revoked. */
export async function revokeFromBus(host: ProgramHost, id: string | undefined, ui: RuntimeUI): Promise<void> {
  try {
    if (id !== undefined) {
      const { id: revoked, tool } = await host.revokeApproval(id);
      ui.showStatus("info", `${revoked} was revoked: identical calls of ${tool} ask again.`);
      return;
    }
    const approvals = await host.revocableApprovals();
    if (approvals.length === 0) ui.showStatus("info", "No approval can be revoked.");
    for (const { id, workerPath, tool, args } of approvals) {
      ui.showStatus("info", `${id}: ${tool} of ${workerPath}, ${canonicalJson(args).slice(0, 200)}`);
    }
  } catch (error) {
    ui.showStatus("error", messageOf(error));
  }
}
