import { z } from "zod";
import type { Effect, EffectProblem, EffectQueue, NewEffect, Store } from "#runtime/store/store.ts";
import {
  BacklogColumns,
  EffectColumns,
  NextEffectColumns,
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
const Due = z.object({ due: z.number() });

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
      Due,
      `select due_at as due from effects where due_at > 0 and claimed = 0 and ${isNext} order by due_at limit 1`,
    )?.due;
  }
}
