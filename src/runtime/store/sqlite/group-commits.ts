import type { SqliteConnection } from "./sqlite-connection.ts";

/**
 * Transactions that share a commit: everything asked in one turn of the event loop is written together, since what
 * a commit costs is its fsync. Promises settle after the commit.
 */
export interface GroupCommits {
  /** All or nothing: when `work` throws, its own writes are undone, and the rest of the group stands. */
  write<Result>(work: () => Result): Promise<Result>;
  /** Sees the writes before it, and resolves no sooner than they are on disk. */
  read<Result>(work: () => Result): Promise<Result>;
  /** Commits what is open and closes the connection. Everything asked later is refused. */
  close(): Promise<void>;
}

interface Member {
  resolve(): void;
  reject(error: unknown): void;
}

export function groupCommits(sql: SqliteConnection): GroupCommits {
  let group: Member[] | undefined;
  let closed = false;

  function commit(): void {
    if (!group) return;

    const members = group;
    group = undefined;
    try {
      sql.run("commit");
    } catch (error) {
      if (sql.inTransaction()) sql.run("rollback");
      for (const member of members) member.reject(error);
      return;
    }
    for (const member of members) member.resolve();
  }

  function join(): Member[] {
    if (closed) throw new Error("The store is closed.");
    if (group) return group;

    sql.run("begin immediate");
    setImmediate(commit);
    group = [];
    return group;
  }

  function undo(error: unknown): void {
    if (sql.inTransaction()) {
      sql.run("rollback to call");
      sql.run("release call");
      return;
    }

    // SQLite gives up the whole transaction when the disk is full or failing.
    const members = group ?? [];
    group = undefined;
    for (const member of members) member.reject(error);
  }

  return {
    write: (work) =>
      new Promise((resolve, reject) => {
        const members = join();
        sql.run("savepoint call");
        try {
          const result = work();
          sql.run("release call");
          members.push({ resolve: () => resolve(result), reject });
        } catch (error) {
          undo(error);
          reject(error);
        }
      }),
    read: (work) =>
      new Promise((resolve, reject) => {
        if (closed) throw new Error("The store is closed.");
        const result = work();
        if (group) group.push({ resolve: () => resolve(result), reject });
        else resolve(result);
      }),
    close: async () => {
      if (closed) return;
      closed = true;
      commit();
      sql.close();
    },
  };
}
