import { LRUCache } from "lru-cache";
import { z } from "zod";
import type { LoggedEvent } from "#domain/events.ts";
import type {
  Advance,
  Backlog,
  Effect,
  EffectId,
  EffectProblem,
  EffectQueue,
  NewEffect,
  NewEvent,
  NewRun,
  RunCommands,
  Store,
  StoredRun,
} from "#runtime/store/store.ts";
import {
  BacklogColumns,
  commandText,
  countedState,
  EffectColumns,
  EventColumns,
  expiredRun,
  NextEffectColumns,
  RunColumns,
  readCommands,
  readEffect,
  readEvent,
  readProblem,
  readRun,
  serializeRecord,
  serializeRequest,
  serializeSnapshot,
} from "#runtime/store/stored-rows.ts";
import { Table } from "./sqlite-connection.ts";

const selectRuns = (spec = "spec") => `select runs.id, root_id, status, snapshot, version, change_sets, updated_at,
    ${spec} as spec, repository_id, installation_id, repositories.owner, repositories.repo, log_removed_at
  from runs join specs on specs.run_id = runs.id left join repositories on repositories.id = repository_id`;

const Id = z.object({ id: z.string() });
const Cost = z.object({ cost: z.number() });
const Count = z.object({ runs: z.number() });
const Version = z.object({ version: z.number() });

/** All runs. Their specs never change, and have their own table. */
export class RunsTable extends Table {
  /** The specs read last, by the run's id. Every step reads its run, of which the spec is the largest part. */
  readonly #specs = new LRUCache<string, string>({ max: 500 });

  /** Returns false if a run with this id exists. */
  insert({ spec, snapshot }: NewRun): boolean {
    const { repositoryId, owner, repo, thread, requestedBy } = spec.origin;
    const inserted = this.sql.run(
      `insert into runs
        (id, root_id, parent_id, repository_id, owner, repo, thread, requested_by, created_at, updated_at, status, snapshot)
        values (:id, :rootId, :parentId, :repositoryId, :owner, :repo, :thread, :requestedBy, :at, :at, 'active', :snapshot)
        on conflict do nothing`,
      {
        id: spec.id,
        rootId: spec.rootId,
        parentId: spec.parentId ?? null,
        repositoryId: repositoryId ?? null,
        owner,
        repo,
        thread,
        requestedBy,
        at: spec.createdAt,
        snapshot: serializeSnapshot(snapshot),
      },
    );
    if (inserted === 0) return false;

    this.sql.run("insert into specs (run_id, spec) values (:id, :spec)", { id: spec.id, spec: serializeRecord(spec) });
    // An insertion that was rolled back had another one.
    this.#specs.delete(spec.id);
    return true;
  }

  find(id: string): StoredRun | undefined {
    const known = this.#specs.get(id);
    const select = selectRuns(known === undefined ? "spec" : "''");
    const row = this.sql.get(RunColumns, `${select} where runs.id = :id`, { id });
    if (!row) return undefined;
    const spec = known ?? row.spec;
    this.#specs.set(id, spec);
    return readRun({ ...row, spec });
  }

  ofThread({ repositoryId, owner, repo, thread }: Parameters<Store["runsOfThread"]>[0]): StoredRun[] {
    const inOrder = "parent_id is null order by runs.rowid desc";
    return repositoryId === undefined
      ? this.#select(
          `repository_id is null and runs.owner = :owner and runs.repo = :repo and thread = :thread and ${inOrder}`,
          {
            owner,
            repo,
            thread,
          },
        )
      : this.#select(`repository_id = :repositoryId and (thread = :thread or pull_request = :thread) and ${inOrder}`, {
          repositoryId,
          thread,
        });
  }

  linkPullRequest(runId: string, number: number): void {
    this.sql.run("update runs set pull_request = :number where id = :runId", { runId, number });
  }

  childrenOf(runId: string): StoredRun[] {
    return this.#select("parent_id = :runId order by runs.rowid", { runId });
  }

  live({ installationId, repositoryIds }: Parameters<Store["liveRuns"]>[0]): StoredRun[] {
    const isLive = "parent_id is null and status <> 'done'";
    const ofInstallation = "select id from repositories where installation_id = :installationId";
    if (repositoryIds) {
      const ids = JSON.stringify(repositoryIds);
      return this.#select(
        `repository_id in (${ofInstallation} and id in (select value from json_each(:ids))) and ${isLive}`,
        { installationId, ids },
      );
    }
    return [
      ...this.#select(`repository_id in (${ofInstallation}) and ${isLive}`, { installationId }),
      ...this.#select(
        `repository_id is null and ${isLive} and json_extract(spec, '$.origin.installationId') = :installationId`,
        { installationId },
      ),
    ];
  }

  latest({ before, limit }: Parameters<Store["latestRuns"]>[0]): StoredRun[] {
    const { id, createdAt } = before ?? { id: "", createdAt: Number.MAX_VALUE };
    return this.#select(
      "parent_id is null and (created_at, runs.id) < (:createdAt, :id) order by created_at desc, runs.id desc limit :limit",
      { id, createdAt, limit },
    );
  }

  count({ requestedBy, repositoryId, owner, repo, since }: Parameters<Store["countRuns"]>[0]): number {
    const values: Record<string, string | number> = { since };
    let condition = "created_at >= :since";
    const columns = { requested_by: requestedBy, repository_id: repositoryId, owner, repo };
    for (const [column, value] of Object.entries(columns)) {
      if (value === undefined) continue;
      values[column] = value;
      condition += ` and ${column} = :${column}`;
    }
    const sql = `select count(*) as runs from runs where parent_id is null and ${condition}`;
    return this.sql.get(Count, sql, values)?.runs ?? 0;
  }

  costsOfWorker({ repositoryId, worker, limit }: Parameters<Store["costsOfWorker"]>[0]): number[] {
    const rows = this.sql.all(
      Cost,
      `select json_extract(snapshot, '$.context.cost') as cost from runs join specs on specs.run_id = runs.id
        where parent_id is null and repository_id = :repositoryId and status = 'done'
          and json_extract(spec, '$.worker.name') = :worker and json_extract(snapshot, '$.context.cost') > 0
        order by created_at desc limit :limit`,
      { repositoryId, worker, limit },
    );
    return rows.map(({ cost }) => cost);
  }

  countByState(): Backlog["runs"] {
    return this.sql.all(
      BacklogColumns.run,
      `select coalesce(state, 'working') as state, count(*) as count from runs indexed by runs_by_state
        where status in ('active', 'waiting') group by coalesce(state, 'working') order by 1`,
    );
  }

  /** Returns a run, children first, whose tree ended before this time and has no effects left. */
  findExpired(endedBefore: number): string | undefined {
    const root = this.sql.get(Id, expiredRun.root(":endedBefore"), { endedBefore });
    if (!root) return undefined;
    const child = this.sql.get(Id, expiredRun.child(":rootId"), { rootId: root.id });
    return child?.id ?? root.id;
  }

  markLogRemoved(runId: string, at: number): void {
    this.sql.run("update runs set log_removed_at = :at where id = :runId", { runId, at });
  }

  /** Returns false if the run has another version. Throws if the run does not exist. */
  isAt(runId: string, version: number): boolean {
    const row = this.sql.get(Version, "select version from runs where id = :runId", { runId });
    if (!row) throw new Error(`Run ${runId} not found.`);
    return row.version === version;
  }

  /** `before`: the run as it is stored, if that is known. */
  advance({ runId, seen, snapshot, status }: Advance, now: number, before?: StoredRun): void {
    const state = countedState({ status, snapshot });
    const isKnown = before && !before.unreadable && before.status === status && countedState(before) === state;
    this.sql.run(
      // SQLite writes the index of states again for each update that sets them.
      `update runs set version = version + 1, last_event = max(last_event, :seen),
        last_seen_event = max(last_seen_event, :seen), snapshot = :snapshot, ${isKnown ? "" : "status = :status, state = :state,"}
        updated_at = max(updated_at, :now) where id = :runId`,
      { runId, seen, snapshot: serializeSnapshot(snapshot), status, state, now },
    );
  }

  #select(condition: string, values: Record<string, string | number>): StoredRun[] {
    return this.sql.all(RunColumns, `${selectRuns()} where ${condition}`, values).map(readRun);
  }
}

/** The append-only logs of all runs, and the inboxes: the events that have not been consumed. */
export class EventsTable extends Table {
  /** Appends the event to the log and to the inbox. Does nothing if its dedupe key is known. */
  append(event: NewEvent, at: number): void {
    const logged = this.appendToLog(event, at);
    if (logged) this.addToInbox(logged);
  }

  /** Returns undefined if the event's dedupe key is known. */
  appendToLog({ runId, event, dedupe }: NewEvent, at: number): LoggedEvent | undefined {
    if (dedupe !== undefined && this.sql.exists("select 1 from events where dedupe = :dedupe", { dedupe })) return;

    const id = this.sql.insert("insert into events (run_id, at, dedupe, event) values (:runId, :at, :dedupe, :event)", {
      runId,
      at,
      dedupe: dedupe ?? null,
      event: serializeRecord(event),
    });
    return { id, runId, at, event };
  }

  /** Makes the run of an event due. Throws if the run does not exist. */
  addToInbox({ id, runId, at }: LoggedEvent): void {
    this.sql.run("insert into inbox (run_id, event_id) values (:runId, :id)", { runId, id });
    const updated = this.sql.run(
      "update runs set last_event = :id, updated_at = max(updated_at, :at) where id = :runId",
      { runId, id, at },
    );
    if (updated === 0) throw new Error(`Run ${runId} not found.`);
  }

  inbox(runId: string): LoggedEvent[] {
    return this.sql
      .all(
        EventColumns,
        `select events.id, at, event from inbox join events on events.id = inbox.event_id
          where inbox.run_id = :runId order by inbox.event_id`,
        { runId },
      )
      .map((row) => readEvent(runId, row));
  }

  log(runId: string, after: number, limit: number | undefined): LoggedEvent[] {
    return this.sql
      .all(
        EventColumns,
        "select id, at, event from events where run_id = :runId and id > :after order by id limit :limit",
        // SQLite reads -1 as no limit.
        { runId, after, limit: limit ?? -1 },
      )
      .map((row) => readEvent(runId, row));
  }

  commands(runId: string): RunCommands {
    const rows = this.sql.all(
      EventColumns,
      "select id, at, event from events where run_id = :runId and instr(event, :commandText) > 0 order by id",
      { runId, commandText },
    );
    return readCommands(runId, rows);
  }

  removeLog(runId: string): void {
    this.sql.run("delete from inbox where run_id = :runId", { runId });
    this.sql.run("delete from events where run_id = :runId", { runId });
  }

  isInInbox(runId: string, eventId: number): boolean {
    return this.sql.exists("select 1 from inbox where run_id = :runId and event_id = :eventId", { runId, eventId });
  }

  removeFromInbox(runId: string, eventId: number): void {
    this.sql.run("delete from inbox where run_id = :runId and event_id = :eventId", { runId, eventId });
  }
}

// The oldest effect of its queue, for which the others wait.
const isNext = `not exists (select 1 from effects as older
  where older.run_id = effects.run_id and older.queue = effects.queue and older.number < effects.number)`;

const Owner = z.object({ runId: z.string() });
const NextEffect = z.object({ due: z.number() });

/** The outbox: effects that were requested but have not been performed. */
export class EffectsTable extends Table {
  insert({ key, runId, queue, request, dueAt }: NewEffect): void {
    this.sql.run(
      `insert into effects (run_id, key, number, queue, kind, input, due_at, requested_at)
        values (:runId, :key, 1 + (select coalesce(max(number), 0) from effects where run_id = :runId),
          :queue, :kind, :input, :dueAt, :now)
        on conflict (run_id, key) do update set repeat = 1 where claimed = 1`,
      { key, runId, queue, ...serializeRequest(request), dueAt: dueAt ?? 0, now: Date.now() },
    );
  }

  claim(runId: string, queue: EffectQueue, now: number): Effect | undefined {
    const head = this.findDue(runId, queue, now);
    if (!head) return undefined;

    const effect = readEffect({ ...head, attempts: head.attempts + 1 }, { runId, queue });
    this.sql.run(
      "update effects set attempts = attempts + 1, claimed = 1, problem = null where run_id = :runId and key = :key",
      { runId, key: head.key },
    );
    return effect;
  }

  /** Returns the oldest effect of a queue, if it is due. */
  findDue(runId: string, queue: EffectQueue, now: number): z.infer<typeof EffectColumns> | undefined {
    const head = this.sql.get(
      EffectColumns,
      `select key, kind, input, due_at, attempts from effects
        where run_id = :runId and number = (select min(number) from effects where run_id = :runId and queue = :queue)`,
      { runId, queue },
    );
    return head && head.due_at <= now ? head : undefined;
  }

  /** Removes an effect, or resets it if it was requested again. Returns false if it is unknown. */
  complete({ runId, key }: EffectId): boolean {
    const isIt = "run_id = :runId and key = :key";
    const reset = "repeat = 0, claimed = 0, attempts = 0, due_at = 0";
    return (
      this.sql.run(`delete from effects where ${isIt} and repeat = 0`, { runId, key }) > 0 ||
      this.sql.run(`update effects set ${reset} where ${isIt}`, { runId, key }) > 0
    );
  }

  removeKinds(runId: string, kinds: readonly string[]): void {
    for (const kind of kinds) {
      this.sql.run("delete from effects where run_id = :runId and kind = :kind", { runId, kind });
    }
  }

  postpone(
    { runId, key }: EffectId,
    dueAt: number,
    { isUncounted, problem }: Parameters<Store["postponeEffect"]>[2] = {},
  ): void {
    this.sql.run(
      `update effects set due_at = :dueAt, claimed = 0, problem = :problem, attempts = attempts - :uncounted
        where run_id = :runId and key = :key`,
      { runId, key, dueAt, problem: problem ? serializeRecord(problem) : null, uncounted: isUncounted ? 1 : 0 },
    );
  }

  setProblem(runId: string, problem: EffectProblem, now: number): void {
    this.sql.run(
      `update effects set problem = :problem
        where run_id = :runId and queue in ('work', 'status') and due_at <= :now and ${isNext}`,
      { runId, problem: serializeRecord(problem), now },
    );
  }

  problemOf(runId: string): EffectProblem | undefined {
    const next = this.sql.all(
      NextEffectColumns,
      `select key, kind, input, problem from effects where run_id = :runId and ${isNext}`,
      { runId },
    );
    return next.map(readProblem).find((problem) => problem !== undefined);
  }

  /** Returns the runs with an effect that can be performed. */
  dueRuns(now: number): string[] {
    return this.sql
      .all(Owner, `select run_id as runId from effects where due_at <= :now and ${isNext} order by requested_at`, {
        now,
      })
      .map(({ runId }) => runId);
  }

  /** Returns the runs with a postponed effect that is due and not claimed. */
  postponedRuns(now: number): string[] {
    return this.sql
      .all(
        Owner,
        `select run_id as runId from effects where due_at > 0 and due_at <= :now and claimed = 0 and ${isNext}`,
        { now },
      )
      .map(({ runId }) => runId);
  }

  countByQueue(now: number): z.infer<typeof BacklogColumns.effects>[] {
    return this.sql.all(
      BacklogColumns.effects,
      `select queue, count(*) filter (where claimed = 0 and due_at <= :now) as waiting,
          count(*) filter (where claimed = 1) as performing,
          count(*) filter (where claimed = 0 and due_at > :now) as postponed,
          min(max(requested_at, due_at)) filter (where claimed = 0 and due_at <= :now) as oldest
        from effects group by queue order by queue`,
      { now },
    );
  }

  /** Returns the first time after this one at which a postponed effect is due. */
  nextDueAt(after: number): number | undefined {
    return this.sql.get(
      NextEffect,
      `select due_at as due from effects where due_at > 0 and due_at > :after and claimed = 0 and ${isNext}
        order by due_at limit 1`,
      { after },
    )?.due;
  }
}
