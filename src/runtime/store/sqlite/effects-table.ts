import { readJson } from "#runtime/store/parse-stored.ts";
import type { Effect, EffectQueue, NewEffect } from "#runtime/store/store.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** What runs want done and is not done yet. A row goes when its effect is over or no longer wanted. */
export interface EffectsTable {
  insert(effect: NewEffect): void;
  claim(runId: string, queue: EffectQueue, now: number): Effect | undefined;
  /**
   * It is over: its row goes, or starts anew if it was asked for again while it was under way. Gives the run it belongs
   * to; undefined when it is not there: it was over or no longer wanted.
   */
  complete(key: string): string | undefined;
  removeKinds(runId: string, kinds: string[]): void;
  postpone(key: string, dueAt: number): void;
}

interface Row {
  key: string;
  kind: string;
  due_at: number;
  attempts: number;
  input: string | null;
}

export function effectsTable(sql: SqliteConnection): EffectsTable {
  return {
    insert: ({ key, runId, queue, kind, input, dueAt }) => {
      sql.run(
        `insert into effects (key, run_id, queue, kind, due_at, input)
          values (:key, :runId, :queue, :kind, :dueAt, :input) on conflict (key) do update set again = 1 where under_way = 1`,
        { key, runId, queue, kind, dueAt: dueAt ?? 0, input: JSON.stringify(input) ?? null },
      );
    },
    claim: (runId, queue, now) => {
      const head = sql.get<{ id: number; due_at: number }>(
        "select id, due_at from effects where run_id = :runId and queue = :queue order by id limit 1",
        { runId, queue },
      );
      if (!head || head.due_at > now) return;

      const begun = sql.get<Row>(
        `update effects set attempts = attempts + 1, under_way = 1 where id = :id
          returning key, kind, due_at, attempts, input`,
        { id: head.id },
      );
      return begun && effect(runId, queue, begun);
    },
    complete: (key) => {
      const anew = sql.get<{ runId: string }>(
        `update effects set again = 0, under_way = 0, attempts = 0, due_at = 0 where key = :key and again = 1
          returning run_id as runId`,
        { key },
      );
      const ended =
        anew ?? sql.get<{ runId: string }>("delete from effects where key = :key returning run_id as runId", { key });
      return ended?.runId;
    },
    removeKinds: (runId, kinds) => {
      for (const kind of kinds) {
        sql.run("delete from effects where run_id = :runId and kind = :kind", { runId, kind });
      }
    },
    postpone: (key, dueAt) => {
      sql.run("update effects set due_at = :dueAt, under_way = 0 where key = :key", { key, dueAt });
    },
  };
}

function effect(runId: string, queue: EffectQueue, { key, kind, due_at, attempts, input }: Row): Effect {
  return {
    key,
    runId,
    queue,
    kind,
    input: readJson(input, { table: "effects", id: key }),
    dueAt: due_at,
    attempts,
  };
}
