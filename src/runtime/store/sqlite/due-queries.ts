import type { SqliteConnection } from "./sqlite-connection.ts";

/** What a dispatcher asks: who has work now, and when to look again. */
export interface DueQueries {
  /** Runs that are not done and have an unseen event, and runs of any status with an effect that can begin. */
  dueRuns(now: number): string[];
  nextDueAt(): number | undefined;
}

// The oldest of its queue: the others wait for it.
const isHead = `not exists (select 1 from effects as older
  where older.run_id = effects.run_id and older.queue = effects.queue and older.id < effects.id)`;

const nextOf = {
  timer: "select due_at as due from timers order by due_at limit 1",
  approval: "select expires_at as due from approvals where status = 'pending' order by expires_at limit 1",
  effect: `select due_at as due from effects
    where due_at > 0 and under_way = 0 and ${isHead} order by due_at limit 1`,
};

export function dueQueries(sql: SqliteConnection): DueQueries {
  return {
    dueRuns: (now) => {
      const awake = sql.all<{ id: string }>(
        `select id from runs where latest > seen and status <> 'done'
          union all select run_id from effects where due_at <= :now and ${isHead}`,
        { now },
      );
      return [...new Set(awake.map(({ id }) => id))];
    },
    nextDueAt: () => {
      const due = Object.values(nextOf).flatMap((query) => sql.all<{ due: number }>(query));
      return due.length > 0 ? Math.min(...due.map((row) => row.due)) : undefined;
    },
  };
}
