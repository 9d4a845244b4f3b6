import type { Approval } from "#domain/approval.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { ReportedLocation, RepositoryLocation } from "#domain/github.ts";
import { chainEntries, type LedgerDraft, ledgerDraft, type StoredLedgerEntry } from "#domain/ledger.ts";
import type { RunSpec } from "#domain/run.ts";
import {
  applyDecision,
  applyExecution,
  applyRevocation,
  executionDraft,
  expire,
} from "#runtime/store/apply-decision.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import {
  type Advance,
  type Backlog,
  clockToleranceMs,
  type DailyCost,
  type Decision,
  type DecisionResult,
  type Delivery,
  type DeliveryQuery,
  type Effect,
  type EffectCompletion,
  type EffectProblem,
  type EffectQueue,
  type Execution,
  type ExpiredData,
  type HourlyUsage,
  type NewDelivery,
  type NewEffect,
  type NewEvent,
  type NewRun,
  type NextStep,
  type Post,
  type Revocation,
  type RunRow,
  type StepResult,
  type Store,
  type TimerName,
  tenantsOf,
} from "#runtime/store/store.ts";
import { countedState, hoursOf, readDailyCosts } from "#runtime/store/stored-rows.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";

interface MemoryRun extends Pick<RunRow, "spec" | "status" | "snapshot" | "version" | "updatedAt"> {
  /** The repository the run belongs to, if known. */
  repositoryId: number | undefined;
  /** The pull request that the run opened. */
  pullRequest?: number;
  log: LoggedEvent[];
  /** Ids of the events that no advance has consumed. */
  inbox: Set<number>;
  /** The highest event id that an advance has processed. */
  seen: number;
  changes: StepChanges[];
  logRemovedAt?: number;
  timers: Map<TimerName, number>;
}

interface MemoryEffect extends Effect {
  isClaimed: boolean;
  requestedAt: number;
  /** True if it was requested again while it was being performed. */
  isRepeated: boolean;
  problem: EffectProblem | undefined;
}

/**
 * A store in the memory of this process, for embedding programs and tests. Each method does its work synchronously and
 * checks before it writes, so it is a transaction. Values are copied on the way in and out.
 */
export class MemoryStore implements Store {
  readonly #runs = new Map<string, MemoryRun>();
  /** In the order they were added. */
  readonly #effects = new Map<string, MemoryEffect>();
  readonly #approvals = new Map<string, Approval>();
  readonly #posts = new Map<string, Post>();
  readonly #repositories = new Map<number, RepositoryLocation>();
  /** The time at which each delivery was stored. */
  readonly #deliveries = new Map<string, number>();
  /** In the order they arrived. */
  readonly #pendingDeliveries = new Map<string, Delivery & { dueAt: number }>();
  readonly #decisions = new Map<string, DecisionResult>();
  readonly #ledger: StoredLedgerEntry[] = [];
  readonly #usage: HourlyUsage[] = [];
  readonly #dedupeKeys = new Set<string>();
  #lastEventId = 0;
  #isClosed = false;

  async ingest({ deliveryId, run, events, effects = [] }: Parameters<Store["ingest"]>[0]): Promise<boolean> {
    this.#checkOpen();
    if (deliveryId !== undefined && this.#deliveries.has(deliveryId)) return false;
    this.#checkRuns([...events, ...effects], run);

    if (deliveryId !== undefined) this.#deliveries.set(deliveryId, Date.now());
    if (run) this.#insertRun(run);
    for (const event of events) this.#append(event, Date.now());
    for (const effect of effects) this.#addEffect(effect);
    return true;
  }

  async hasDelivery(deliveryId: string): Promise<boolean> {
    this.#checkOpen();
    return this.#deliveries.has(deliveryId);
  }

  async saveDelivery(delivery: NewDelivery): Promise<boolean> {
    this.#checkOpen();
    if (this.#deliveries.has(delivery.key)) return false;
    this.#deliveries.set(delivery.key, Date.now());
    const pending = { ...structuredClone(delivery), receivedAt: Date.now(), attempts: 0, failures: 0, dueAt: 0 };
    this.#pendingDeliveries.set(delivery.key, pending);
    return true;
  }

  async claimDeliveries({ leaseMs, limit, except }: DeliveryQuery): Promise<Delivery[]> {
    this.#checkOpen();
    const now = Date.now();
    const { installations = [], repositories = [] } = except ?? {};
    const next = this.#firstDeliveries()
      .filter(({ dueAt, queue }) => {
        const { installation, repository } = tenantsOf(queue);
        return dueAt <= now && !installations.includes(installation) && !repositories.includes(repository);
      })
      .sort((a, b) => a.dueAt - b.dueAt)
      .slice(0, limit);
    return next.map((pending) => {
      pending.dueAt = now + leaseMs;
      pending.attempts += 1;
      const { dueAt: _, ...delivery } = pending;
      return structuredClone(delivery);
    });
  }

  async postponeDelivery(key: string, delayMs: number, { hasFailed = false } = {}): Promise<void> {
    this.#checkOpen();
    const pending = this.#pendingDeliveries.get(key);
    if (!pending) return;
    pending.dueAt = Date.now() + delayMs;
    if (hasFailed) pending.failures += 1;
  }

  async completeDelivery(key: string): Promise<void> {
    this.#checkOpen();
    this.#pendingDeliveries.delete(key);
  }

  async nextDeliveryInMs(): Promise<number | undefined> {
    this.#checkOpen();
    const due = this.#firstDeliveries().map(({ dueAt }) => dueAt);
    return due.length > 0 ? Math.min(...due) - Date.now() : undefined;
  }

  async findRun(id: string): Promise<RunRow | undefined> {
    this.#checkOpen();
    const run = this.#runs.get(id);
    return run && this.#rowOf(run);
  }

  async runsOfThread({ repositoryId, owner, repo, thread }: Parameters<Store["runsOfThread"]>[0]): Promise<RunRow[]> {
    return this.#roots(
      ({ spec: { origin }, ...run }) =>
        (origin.thread === thread || run.pullRequest === thread) &&
        run.repositoryId === repositoryId &&
        (repositoryId !== undefined || isNamed(origin, { owner, repo })),
    ).toReversed();
  }

  async childrenOf(runId: string): Promise<RunRow[]> {
    this.#checkOpen();
    return [...this.#runs.values()].filter(({ spec }) => spec.parentId === runId).map((run) => this.#rowOf(run));
  }

  async countRuns({ since, repositoryId, ...names }: Parameters<Store["countRuns"]>[0]): Promise<number> {
    return this.#roots(
      ({ spec: { origin, createdAt }, ...run }) =>
        createdAt >= since &&
        (repositoryId === undefined || run.repositoryId === repositoryId) &&
        isNamed(origin, names),
    ).length;
  }

  async costOfRuns({ since, repositoryId }: Parameters<Store["costOfRuns"]>[0]): Promise<number> {
    return this.#roots(
      ({ spec, ...run }) =>
        spec.createdAt >= since && (repositoryId === undefined || run.repositoryId === repositoryId),
    ).reduce((sum, { snapshot }) => sum + snapshot.context.cost, 0);
  }

  async costsOfWorker({ repositoryId, worker, limit }: Parameters<Store["costsOfWorker"]>[0]): Promise<number[]> {
    return this.#roots(
      ({ spec, status, snapshot, ...run }) =>
        status === "done" &&
        run.repositoryId === repositoryId &&
        spec.worker.name === worker &&
        snapshot.context.cost > 0,
    )
      .sort((a, b) => b.spec.createdAt - a.spec.createdAt)
      .slice(0, limit)
      .map(({ snapshot }) => snapshot.context.cost);
  }

  async dailyCosts(days: Parameters<Store["dailyCosts"]>[0]): Promise<DailyCost[]> {
    this.#checkOpen();
    const { from, to } = hoursOf(days);
    const counted = this.#usage.filter(({ hour }) => hour >= from && hour < to);
    const groups = Map.groupBy(counted, ({ hour, worker, origin: { repositoryId, owner, repo } }) =>
      JSON.stringify([Math.floor(hour / 24), worker, repositoryId ?? `${owner}/${repo}`.toLowerCase()]),
    );
    const sum = (group: HourlyUsage[], of: (usage: HourlyUsage) => number) =>
      group.reduce((total, usage) => total + of(usage), 0);
    return readDailyCosts(
      [...groups.values()].flatMap((group) => {
        const [first] = group;
        if (!first) return [];
        const { repositoryId, installationId, owner, repo } = first.origin;
        const location = repositoryId === undefined ? undefined : this.#repositories.get(repositoryId);
        return [
          {
            day: Math.floor(first.hour / 24),
            worker: first.worker,
            repository_id: repositoryId ?? null,
            installation_id: location?.installationId ?? installationId,
            owner: location?.owner ?? owner,
            repo: location?.repo ?? repo,
            runs: new Set(group.map(({ rootId }) => rootId)).size,
            model_calls: sum(group, ({ modelCalls }) => modelCalls),
            input_tokens: sum(group, ({ inputTokens }) => inputTokens),
            output_tokens: sum(group, ({ outputTokens }) => outputTokens),
            cached_input_tokens: sum(group, ({ cachedInputTokens }) => cachedInputTokens),
            cost: sum(group, ({ cost }) => cost),
          },
        ];
      }),
    );
  }

  async readBacklog(now: number): Promise<Backlog> {
    this.#checkOpen();
    const live = [...this.#runs.values()].filter(({ status }) => status !== "done");
    const isDue = ({ isClaimed, dueAt }: MemoryEffect) => !isClaimed && dueAt <= now;
    return {
      runs: [...Map.groupBy(live, countedState)].map(([state, { length: count }]) => ({ state, count })),
      effects: [...Map.groupBy(this.#effects.values(), ({ queue }) => queue)].map(([queue, effects]) => {
        const waiting = effects.filter(isDue);
        const performing = effects.filter(({ isClaimed }) => isClaimed).length;
        const since = waiting.map(({ requestedAt, dueAt }) => Math.max(requestedAt, dueAt));
        return {
          queue,
          waiting: waiting.length,
          performing,
          postponed: effects.length - waiting.length - performing,
          ...(since.length > 0 && { oldestWaitingAt: Math.min(...since) }),
        };
      }),
      deliveries: {
        waiting: this.#pendingDeliveries.size,
        ...(this.#pendingDeliveries.size > 0 && {
          oldestAt: Math.min(...[...this.#pendingDeliveries.values()].map(({ receivedAt }) => receivedAt)),
        }),
      },
      pendingApprovals: [...this.#approvals.values()].filter(({ status }) => status === "pending").length,
    };
  }

  async liveRuns({ installationId, repositoryIds }: Parameters<Store["liveRuns"]>[0]): Promise<RunRow[]> {
    return this.#roots(({ spec, status, repositoryId }) => {
      if (status === "done") return false;
      if (repositoryId === undefined) return !repositoryIds && spec.origin.installationId === installationId;
      const location = this.#repositories.get(repositoryId);
      return location?.installationId === installationId && (repositoryIds?.includes(repositoryId) ?? true);
    });
  }

  async latestRuns({ before, limit }: Parameters<Store["latestRuns"]>[0]): Promise<RunRow[]> {
    const order = (one: { id: string; createdAt: number }, other: { id: string; createdAt: number }) =>
      other.createdAt - one.createdAt || Number(one.id < other.id) - Number(one.id > other.id);
    return this.#roots(({ spec }) => !before || order(before, spec) < 0)
      .sort((one, other) => order(one.spec, other.spec))
      .slice(0, limit);
  }

  async findLocation(repositoryId: number): Promise<RepositoryLocation | undefined> {
    this.#checkOpen();
    const location = this.#repositories.get(repositoryId);
    return location && { ...location };
  }

  async saveLocation(reported: ReportedLocation): Promise<void> {
    this.#checkOpen();
    const resolved = resolveLocation(this.#repositories.get(reported.repositoryId), reported);
    if (!resolved) return;

    const { location, name } = resolved;
    this.#repositories.set(reported.repositoryId, structuredClone(location));
    for (const run of this.#runs.values()) {
      const { origin, createdAt } = run.spec;
      if (run.repositoryId === undefined && createdAt >= name.since && isNamed(origin, name)) {
        run.repositoryId = reported.repositoryId;
      }
    }
  }

  async inbox(runId: string): Promise<LoggedEvent[]> {
    this.#checkOpen();
    const { log = [], inbox } = this.#runs.get(runId) ?? {};
    return structuredClone(log.filter(({ id }) => inbox?.has(id)));
  }

  async log(runId: string, after = 0, limit?: number): Promise<LoggedEvent[]> {
    this.#checkOpen();
    const { log = [] } = this.#runs.get(runId) ?? {};
    const start = log.findLastIndex(({ id }) => id <= after) + 1;
    return structuredClone(log.slice(start, limit === undefined ? undefined : start + limit));
  }

  async advance({ effects, timers, ...step }: Advance): Promise<boolean> {
    this.#checkOpen();
    const run = this.#existingRun(step.runId);
    if (run.version !== step.version || !step.consumed.every((id) => run.inbox.has(id))) return false;
    this.#checkRuns(effects);

    for (const id of step.consumed) run.inbox.delete(id);
    run.version += 1;
    run.seen = Math.max(run.seen, step.seen, ...step.consumed);
    run.snapshot = structuredClone(step.snapshot);
    run.status = step.status;
    run.updatedAt = Math.max(run.updatedAt, Date.now());
    for (const { key, runId, request } of [...this.#effects.values()]) {
      if (runId === step.runId && step.cancelEffects?.kinds.includes(request.kind)) this.#effects.delete(key);
    }
    for (const effect of effects) this.#addEffect(effect);
    for (const timer of timers?.clear ?? []) run.timers.delete(timer);
    for (const { timer, dueAt } of timers?.set ?? []) run.timers.set(timer, dueAt);
    if (step.withdrawApprovals) this.#withdraw(step.runId);
    if (step.usage) this.#usage.push(structuredClone(step.usage));
    return true;
  }

  async claimEffect(runId: string, queue: EffectQueue, now: number): Promise<Effect | undefined> {
    this.#checkOpen();
    const head = this.#heads().find((effect) => effect.runId === runId && effect.queue === queue);
    if (!head || head.dueAt > now) return undefined;

    head.attempts += 1;
    head.isClaimed = true;
    head.problem = undefined;
    const { isClaimed: _, isRepeated: __, problem: ___, requestedAt: ____, ...effect } = head;
    return structuredClone(effect);
  }

  async completeEffect({ events = [], effects = [], approvals = [], ...finished }: EffectCompletion): Promise<boolean> {
    this.#checkOpen();
    const effect = this.#effects.get(finished.key);
    if (!effect) return false;
    const { run, changes, parentChanges, execution, shownApproval, posts = [], pullRequest } = finished;
    this.#checkRuns([...events, ...effects, ...(parentChanges ? [parentChanges] : [])], run);
    const known = approvals.find(({ id }) => this.#approvals.has(id));
    if (known) throw new Error(`There is already an approval ${known.id}.`);

    this.#endEffect(effect);
    if (run) this.#insertRun(run);
    for (const event of events) this.#append(event, Date.now());
    for (const next of effects) this.#addEffect(next);
    if (pullRequest !== undefined) this.#existingRun(effect.runId).pullRequest = pullRequest;
    if (changes) this.#existingRun(effect.runId).changes.push(structuredClone(changes));
    if (parentChanges) this.#existingRun(parentChanges.runId).changes.push(structuredClone(parentChanges.changes));
    for (const approval of approvals) {
      this.#approvals.set(approval.id, structuredClone(approval));
      this.#record([ledgerDraft("requested", approval, { at: approval.requestedAt })]);
    }
    const executed = execution && this.#approvals.get(execution.approvalId);
    if (executed) this.#record([executionDraft(executed, execution, Date.now())]);
    const shown = shownApproval === undefined ? undefined : this.#approvals.get(shownApproval);
    if (shown) shown.shownAt ??= Date.now();
    for (const { name, ...post } of posts) this.#posts.set(name, { ...structuredClone(post), updatedAt: Date.now() });
    return true;
  }

  async completeStep(
    completion: EffectCompletion,
    { runId, queue, now, ...next }: NextStep,
  ): Promise<StepResult | undefined> {
    if (!(await this.completeEffect(completion))) return undefined;
    const advance = next.advance(this.#rowOf(this.#existingRun(runId)), await this.inbox(runId));
    const advanced = advance !== undefined && (await this.advance(advance));
    return { advanced, claimed: await this.claimEffect(runId, queue, now) };
  }

  async postponeEffect(
    key: string,
    dueAt: number,
    { isUncounted, problem }: Parameters<Store["postponeEffect"]>[2] = {},
  ): Promise<void> {
    this.#checkOpen();
    const effect = this.#effects.get(key);
    if (!effect) return;
    Object.assign(effect, { dueAt, isClaimed: false, problem, attempts: effect.attempts - (isUncounted ? 1 : 0) });
  }

  async effectProblem(runId: string): Promise<EffectProblem | undefined> {
    this.#checkOpen();
    return this.#heads().find((effect) => effect.runId === runId && effect.problem)?.problem;
  }

  async dueRuns(now: number): Promise<string[]> {
    this.#checkOpen();
    const unseen = [...this.#runs.values()]
      .filter(({ status, seen, log }) => status !== "done" && (log.at(-1)?.id ?? 0) > seen)
      .map(({ spec }) => spec.id);
    const due = this.#heads().filter(({ dueAt }) => dueAt <= now);
    return [...new Set([...unseen, ...due.map(({ runId }) => runId)])];
  }

  async bringForward(now: number): Promise<void> {
    this.#checkOpen();
    const isAhead = (runId: string) => this.#existingRun(runId).updatedAt > now + clockToleranceMs;
    for (const effect of this.#effects.values()) {
      if (!effect.isClaimed && effect.dueAt > now && isAhead(effect.runId)) effect.dueAt = now;
    }
    for (const { spec, timers } of this.#runs.values()) {
      if (isAhead(spec.id)) for (const [timer, dueAt] of timers) timers.set(timer, Math.min(dueAt, now));
    }
  }

  async fireTimers(now: number): Promise<string[]> {
    this.#checkOpen();
    const due = [...this.#runs.values()]
      .flatMap(({ spec, timers }) => [...timers].map(([timer, dueAt]) => ({ runId: spec.id, timer, dueAt })))
      .filter(({ dueAt }) => dueAt <= now)
      .sort((a, b) => a.dueAt - b.dueAt);
    for (const { runId, timer } of due) {
      this.#existingRun(runId).timers.delete(timer);
      this.#append({ runId, event: { type: "timer.due", timer } }, now);
    }
    const expired = [...this.#approvals.values()]
      .filter(({ status, expiresAt }) => status === "pending" && expiresAt <= now)
      .sort((a, b) => a.expiresAt - b.expiresAt)
      .map(expire);
    for (const { changed, event, ledger } of expired) {
      this.#approvals.set(changed.id, changed);
      this.#append({ runId: changed.runId, event }, now);
      this.#record([ledger]);
    }
    return [...new Set([...due, ...expired.map(({ changed }) => changed)].map(({ runId }) => runId))];
  }

  async nextDueAt(): Promise<number | undefined> {
    this.#checkOpen();
    const due = [
      ...[...this.#runs.values()].flatMap(({ timers }) => [...timers.values()]),
      ...[...this.#approvals.values()].filter(({ status }) => status === "pending").map(({ expiresAt }) => expiresAt),
      ...this.#heads()
        .filter(({ dueAt, isClaimed }) => dueAt > 0 && !isClaimed)
        .map(({ dueAt }) => dueAt),
    ];
    return due.length > 0 ? Math.min(...due) : undefined;
  }

  async findApproval(id: string): Promise<Approval | undefined> {
    this.#checkOpen();
    return structuredClone(this.#approvals.get(id));
  }

  async approvalsOf(rootId: string): Promise<Approval[]> {
    this.#checkOpen();
    return structuredClone([...this.#approvals.values()].filter((approval) => approval.rootId === rootId));
  }

  async decideApproval(decision: Decision): Promise<DecisionResult> {
    return this.#once(decision, "approval", (approval) => applyDecision(approval, decision));
  }

  async revokeApproval(revocation: Revocation): Promise<DecisionResult> {
    return this.#once(revocation, "revoke", (approval) => applyRevocation(approval, revocation));
  }

  async beginExecution(execution: Execution): Promise<Approval | undefined> {
    this.#checkOpen();
    const begun = applyExecution(this.#approvals.get(execution.approvalId), execution);
    if (begun) this.#approvals.set(begun.id, structuredClone(begun));
    return structuredClone(begun);
  }

  async readLedger(after: number, limit: number): Promise<StoredLedgerEntry[]> {
    this.#checkOpen();
    return structuredClone(this.#ledger.slice(after, after + limit));
  }

  async changesOf(runId: string, upTo?: number): Promise<StepChanges[]> {
    this.#checkOpen();
    return structuredClone(this.#runs.get(runId)?.changes.slice(0, upTo) ?? []);
  }

  async findPost(name: string): Promise<Post | undefined> {
    this.#checkOpen();
    const post = this.#posts.get(name);
    return structuredClone(post);
  }

  async removeExpired({ runsEndedBefore = 0, deliveriesBefore }: ExpiredData): Promise<boolean> {
    this.#checkOpen();
    const deliveries = [...this.#deliveries].filter(([, storedAt]) => storedAt < deliveriesBefore);
    for (const [key] of deliveries) this.#deliveries.delete(key);
    const isOpen = (rootId: string) =>
      [...this.#runs.values()].some(
        ({ spec, status }) =>
          spec.rootId === rootId &&
          (status !== "done" || [...this.#effects.values()].some(({ runId }) => runId === spec.id)),
      );
    const expired = [...this.#runs.values()].find(({ spec, logRemovedAt }) => {
      const root = this.#runs.get(spec.rootId);
      return root && logRemovedAt === undefined && root.updatedAt < runsEndedBefore && !isOpen(spec.rootId);
    });
    if (!expired) return deliveries.length > 0;
    Object.assign(expired, { log: [], inbox: new Set(), changes: [], logRemovedAt: Date.now() });
    for (const { id, runId } of [...this.#approvals.values()])
      if (runId === expired.spec.id) this.#approvals.delete(id);
    return true;
  }

  /** Removes a root run with every run below it, and returns its spec. */
  forget(rootId: string): RunSpec | undefined {
    const root = this.#runs.get(rootId)?.spec;
    const ids = new Set(
      [...this.#runs.values()].filter(({ spec }) => spec.rootId === rootId).map(({ spec }) => spec.id),
    );
    for (const { key, runId } of [...this.#effects.values()]) if (ids.has(runId)) this.#effects.delete(key);
    for (const { id, runId } of [...this.#approvals.values()]) {
      if (!ids.has(runId)) continue;
      this.#approvals.delete(id);
      this.#posts.delete(`approval/${id}`);
    }
    // Everything else is named after a run, and the names of children begin with that of their root.
    for (const name of [...this.#posts.keys()]) if (name.includes(`/${rootId}`)) this.#posts.delete(name);
    for (const key of [...this.#dedupeKeys]) if (key.startsWith(rootId)) this.#dedupeKeys.delete(key);
    for (const id of ids) this.#runs.delete(id);
    return root;
  }

  async ping(): Promise<void> {
    this.#checkOpen();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new Error("The store is closed.");
  }

  /** Throws if one of these belongs to a run that neither exists nor is created with them. */
  #checkRuns(addressed: readonly { runId: string }[], made?: NewRun): void {
    for (const { runId } of addressed) if (runId !== made?.spec.id) this.#existingRun(runId);
  }

  #existingRun(id: string): MemoryRun {
    const run = this.#runs.get(id);
    if (!run) throw new Error(`There is no run ${id}.`);
    return run;
  }

  #insertRun({ spec, snapshot, effects }: NewRun): void {
    if (this.#runs.has(spec.id)) return;

    this.#runs.set(spec.id, {
      spec: structuredClone(spec),
      status: "active",
      snapshot: structuredClone(snapshot),
      version: 0,
      updatedAt: spec.createdAt,
      repositoryId: spec.origin.repositoryId,
      log: [],
      inbox: new Set(),
      seen: 0,
      changes: [],
      timers: new Map(),
    });
    for (const effect of effects) this.#addEffect(effect);
  }

  #append({ runId, event, dedupe }: NewEvent, at: number): void {
    if (dedupe !== undefined && this.#dedupeKeys.has(dedupe)) return;
    if (dedupe !== undefined) this.#dedupeKeys.add(dedupe);

    const run = this.#existingRun(runId);
    const id = ++this.#lastEventId;
    run.log.push({ id, runId, at, event: structuredClone(event) });
    run.inbox.add(id);
    run.updatedAt = Math.max(run.updatedAt, at);
  }

  /** Acts on an approval. A repeated delivery gets the first result. */
  #once(
    { deliveryId, approvalId, now, effects = [] }: Decision | Revocation,
    part: string,
    apply: (approval: Approval | undefined) => ReturnType<typeof applyDecision>,
  ): DecisionResult {
    this.#checkOpen();
    const key = deliveryId === undefined ? undefined : JSON.stringify([part, deliveryId, approvalId]);
    const earlier = key === undefined ? undefined : this.#decisions.get(key);
    if (earlier) return structuredClone(earlier);

    const { result, changed, event, ledger } = apply(this.#approvals.get(approvalId));
    if (changed) {
      this.#checkRuns(effects);
      this.#approvals.set(approvalId, structuredClone(changed));
      if (event) this.#append({ runId: changed.runId, event }, now);
      for (const effect of effects) this.#addEffect(effect);
    }
    if (ledger) this.#record([ledger]);
    if (key !== undefined && result.kind !== "changed") this.#decisions.set(key, structuredClone(result));
    return structuredClone(result);
  }

  #record(drafts: readonly LedgerDraft[]): void {
    this.#ledger.push(...chainEntries(drafts, this.#ledger.at(-1)));
  }

  #addEffect(effect: NewEffect): void {
    const known = this.#effects.get(effect.key);
    if (known) {
      known.isRepeated ||= known.isClaimed;
      return;
    }
    const added = { ...structuredClone(effect), dueAt: effect.dueAt ?? 0, requestedAt: Date.now() };
    this.#effects.set(effect.key, { ...added, attempts: 0, isClaimed: false, isRepeated: false, problem: undefined });
  }

  #endEffect(effect: MemoryEffect): void {
    if (!effect.isRepeated) this.#effects.delete(effect.key);
    else Object.assign(effect, { isRepeated: false, isClaimed: false, attempts: 0, dueAt: 0 });
  }

  /** The oldest effect of each queue of each run: the others wait for it. */
  #heads(): MemoryEffect[] {
    const heads = new Map<string, MemoryEffect>();
    for (const effect of this.#effects.values()) {
      const queue = JSON.stringify([effect.runId, effect.queue]);
      if (!heads.has(queue)) heads.set(queue, effect);
    }
    return [...heads.values()];
  }

  #withdraw(runId: string): void {
    for (const approval of this.#approvals.values()) {
      if (approval.runId !== runId || approval.status !== "pending") continue;
      approval.status = "withdrawn";
      this.#record([ledgerDraft("withdrawn", approval, { at: Date.now() })]);
    }
  }

  /** Root runs, in order of creation. */
  #roots(isWanted: (run: MemoryRun) => boolean): RunRow[] {
    this.#checkOpen();
    return [...this.#runs.values()]
      .filter((run) => run.spec.parentId === undefined && isWanted(run))
      .map((run) => this.#rowOf(run));
  }

  /** The oldest delivery of each queue. */
  #firstDeliveries(): (Delivery & { dueAt: number })[] {
    const groups = Map.groupBy(this.#pendingDeliveries.values(), ({ queue }) => queue);
    return [...groups.values()].flatMap(([first]) => (first ? [first] : []));
  }

  #rowOf({ spec, status, snapshot, version, updatedAt, repositoryId, changes, logRemovedAt }: MemoryRun): RunRow {
    return structuredClone({
      ...(logRemovedAt !== undefined && { logRemovedAt }),
      id: spec.id,
      rootId: spec.rootId,
      spec: this.#located(spec, repositoryId),
      status,
      snapshot,
      version,
      changeSets: changes.length,
      updatedAt,
    });
  }

  /** Returns the spec with the current name and installation of its repository. */
  #located(spec: RunSpec, repositoryId: number | undefined): RunSpec {
    const location = repositoryId === undefined ? undefined : this.#repositories.get(repositoryId);
    if (!location) return spec;
    const { installationId, owner, repo } = location;
    return { ...spec, origin: { ...spec.origin, repositoryId: location.repositoryId, installationId, owner, repo } };
  }
}

/** True if each of the given names matches that of the origin, ignoring case. */
function isNamed(origin: RunSpec["origin"], names: Partial<Pick<RunSpec["origin"], "owner" | "repo" | "requestedBy">>) {
  return (["owner", "repo", "requestedBy"] as const).every(
    (part) => names[part] === undefined || names[part].toLowerCase() === origin[part].toLowerCase(),
  );
}
