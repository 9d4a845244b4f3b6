import { z } from "zod";
import type {
  Delivery,
  DeliveryQuery,
  Effect,
  EffectProblem,
  EffectQueue,
  NewDelivery,
  NewEffect,
  Store,
} from "#runtime/store/store.ts";
import {
  BacklogColumns,
  DeliveryColumns,
  EffectColumns,
  NextEffectColumns,
  readDelivery,
  readEffect,
  readProblem,
  serializeRecord,
  serializeRequest,
} from "#runtime/store/stored-rows.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

// The oldest effect of its queue, for which the others wait.
const isNext = `not exists (select 1 from effects as older
  where older.run_id = effects.run_id and older.queue = effects.queue and older.id < effects.id)`;

const Head = EffectColumns.extend({ id: z.number() });
const Owner = z.object({ runId: z.string() });
const NextEffect = z.object({ due: z.number() });

/** The outbox: effects that were requested but have not been performed. */
export class EffectsTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  insert({ key, runId, queue, request, dueAt }: NewEffect): void {
    this.#sql.run(
      `insert into effects (key, run_id, queue, kind, input, due_at, requested_at)
        values (:key, :runId, :queue, :kind, :input, :dueAt, :now)
        on conflict (key) do update set repeat = 1 where claimed = 1`,
      { key, runId, queue, ...serializeRequest(request), dueAt: dueAt ?? 0, now: Date.now() },
    );
  }

  claim(runId: string, queue: EffectQueue, now: number): Effect | undefined {
    const head = this.#sql.get(
      Head,
      `select id, key, kind, input, due_at, attempts from effects
        where run_id = :runId and queue = :queue order by id limit 1`,
      { runId, queue },
    );
    if (!head || head.due_at > now) return undefined;

    const effect = readEffect({ ...head, attempts: head.attempts + 1 }, { runId, queue });
    this.#sql.run("update effects set attempts = attempts + 1, claimed = 1, problem = null where id = :id", {
      id: head.id,
    });
    return effect;
  }

  /**
   * Removes the effect, or resets it if it was requested again while it was performed. Returns the id of its run;
   * undefined if there is no such effect.
   */
  complete(key: string): string | undefined {
    const repeated = this.#sql.get(
      Owner,
      `update effects set repeat = 0, claimed = 0, attempts = 0, due_at = 0 where key = :key and repeat = 1
        returning run_id as runId`,
      { key },
    );
    const completed =
      repeated ?? this.#sql.get(Owner, "delete from effects where key = :key returning run_id as runId", { key });
    return completed?.runId;
  }

  removeKinds(runId: string, kinds: readonly string[]): void {
    for (const kind of kinds) {
      this.#sql.run("delete from effects where run_id = :runId and kind = :kind", { runId, kind });
    }
  }

  postpone(key: string, dueAt: number, { isUncounted, problem }: Parameters<Store["postponeEffect"]>[2] = {}): void {
    this.#sql.run(
      `update effects set due_at = :dueAt, claimed = 0, problem = :problem, attempts = attempts - :uncounted
        where key = :key`,
      { key, dueAt, problem: problem ? serializeRecord(problem) : null, uncounted: isUncounted ? 1 : 0 },
    );
  }

  problemOf(runId: string): EffectProblem | undefined {
    const next = this.#sql.all(
      NextEffectColumns,
      `select key, kind, input, problem from effects where run_id = :runId and ${isNext}`,
      { runId },
    );
    return next.map(readProblem).find((problem) => problem !== undefined);
  }

  /** Returns the runs with an effect that can be performed. */
  dueRuns(now: number): string[] {
    return this.#sql
      .all(Owner, `select run_id as runId from effects where due_at <= :now and ${isNext}`, { now })
      .map(({ runId }) => runId);
  }

  countByQueue(now: number): z.infer<typeof BacklogColumns.effects>[] {
    return this.#sql.all(
      BacklogColumns.effects,
      `select queue, count(*) filter (where claimed = 0 and due_at <= :now) as waiting,
          count(*) filter (where claimed = 1) as performing,
          count(*) filter (where claimed = 0 and due_at > :now) as postponed,
          min(max(requested_at, due_at)) filter (where claimed = 0 and due_at <= :now) as oldest
        from effects group by queue order by queue`,
      { now },
    );
  }

  /** Returns the time when the next postponed effect is due. */
  nextDueAt(): number | undefined {
    return this.#sql.get(
      NextEffect,
      `select due_at as due from effects where due_at > 0 and claimed = 0 and ${isNext} order by due_at limit 1`,
    )?.due;
  }
}

const Result = z.object({ result: z.string().nullable() });

/** The stored deliveries, with the result of each part, so that nothing is processed twice. */
export class DeliveriesTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  /** Returns the stored result: null if there is none, undefined if the delivery is new. */
  resultOf({ guid, part }: { guid: string; part: string }): string | null | undefined {
    const sql = "select result from deliveries where guid = :guid and part = :part";
    return this.#sql.get(Result, sql, { guid, part })?.result;
  }

  add({ guid, part, result, now }: { guid: string; part: string; result: string | null; now: number }): void {
    this.#sql.run(
      "insert into deliveries (guid, part, result, received_at) values (:guid, :part, :result, :now) on conflict do nothing",
      { guid, part, result, now },
    );
  }

  /** Removes a batch of the oldest deliveries that were stored before this time. Returns their number. */
  removeBefore(before: number, limit: number): number {
    return this.#sql.run(
      `delete from deliveries where (guid, part) in
        (select guid, part from deliveries where received_at < :before order by received_at limit :limit)`,
      { before, limit },
    );
  }
}

const isFirst = "not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)";

const ClaimedColumns = DeliveryColumns.extend({ number: z.number() });
const NextDelivery = z.object({ due: z.number().nullable() });

/** The deliveries that are waiting or being processed. */
export class PendingDeliveriesTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  insert({ key, queue, content }: NewDelivery, now: number): void {
    this.#sql.run(
      "insert into pending_deliveries (key, queue, content, received_at) values (:key, :queue, :content, :now)",
      { key, queue, content: JSON.stringify(content), now },
    );
  }

  claim({ leaseMs, limit, except }: DeliveryQuery): Delivery[] {
    const { installations = [], repositories = [] } = except ?? {};
    const now = Date.now();
    const rows = this.#sql.all(
      ClaimedColumns,
      `update pending_deliveries set due_at = :until, attempts = attempts + 1 where number in
        (select number from pending_deliveries as a where due_at <= :now and ${isFirst}
            and substr(queue, 1, instr(queue || ' ', ' ') - 1) not in (select value from json_each(:installations))
            and substr(queue, 1, instr(queue || '#', '#') - 1) not in (select value from json_each(:repositories))
          order by due_at, number limit :limit)
        returning number, key, queue, content, received_at, attempts, failures`,
      {
        now,
        until: now + leaseMs,
        limit,
        installations: JSON.stringify(installations),
        repositories: JSON.stringify(repositories),
      },
    );
    return rows.sort((a, b) => a.number - b.number).map(readDelivery);
  }

  postpone(key: string, delayMs: number, { hasFailed }: { hasFailed?: boolean } = {}): void {
    this.#sql.run("update pending_deliveries set due_at = :dueAt, failures = failures + :failed where key = :key", {
      key,
      dueAt: Date.now() + delayMs,
      failed: hasFailed ? 1 : 0,
    });
  }

  remove(key: string): void {
    this.#sql.run("delete from pending_deliveries where key = :key", { key });
  }

  nextInMs(): number | undefined {
    const sql = `select min(due_at) - :now as due from pending_deliveries as a where ${isFirst}`;
    return this.#sql.get(NextDelivery, sql, { now: Date.now() })?.due ?? undefined;
  }

  count(): z.infer<typeof BacklogColumns.deliveries> | undefined {
    const sql = "select count(*) as waiting, min(received_at) as oldest from pending_deliveries";
    return this.#sql.get(BacklogColumns.deliveries, sql);
  }

  /** Makes every delivery due, since the process that claimed it has ended. */
  releaseAll(): void {
    this.#sql.run("update pending_deliveries set due_at = 0 where due_at > 0");
  }
}
