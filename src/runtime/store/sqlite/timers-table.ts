import type { Advance } from "#runtime/store/store.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

type Timer = NonNullable<NonNullable<Advance["timers"]>["clear"]>[number];

/** The deadlines runs have set: one of each name for a run. */
export interface TimersTable {
  set(runId: string, timer: Timer, dueAt: number): void;
  clear(runId: string, timer: Timer): void;
  /** Takes out those that are due, in the order they came due. */
  takeDue(now: number): { runId: string; timer: Timer }[];
}

export function timersTable(sql: SqliteConnection): TimersTable {
  return {
    set: (runId, timer, dueAt) => {
      sql.run(
        `insert into timers (run_id, timer, due_at) values (:runId, :timer, :dueAt)
          on conflict (run_id, timer) do update set due_at = excluded.due_at`,
        { runId, timer, dueAt },
      );
    },
    clear: (runId, timer) => {
      sql.run("delete from timers where run_id = :runId and timer = :timer", { runId, timer });
    },
    takeDue: (now) => {
      const due = sql.all<{ runId: string; timer: Timer }>(
        "select run_id as runId, timer from timers where due_at <= :now order by due_at",
        { now },
      );
      sql.run("delete from timers where due_at <= :now", { now });
      return due;
    },
  };
}
