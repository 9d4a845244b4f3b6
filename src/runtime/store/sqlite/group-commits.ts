import type { SqliteConnection } from "./sqlite-connection.ts";

interface Member {
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Groups the transactions requested in one turn of the event loop into one commit, since a commit costs an fsync. Promises
 * settle after the commit.
 */
export class GroupCommits {
  readonly #sql: SqliteConnection;
  #group: Member[] | undefined;
  #isClosed = false;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  /** Stores everything that `work` writes or, if it throws, none of it. The rest of the group is not affected. */
  write<Result>(work: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      const group = this.#open();
      this.#sql.run("savepoint call");
      try {
        const result = work();
        this.#sql.run("release call");
        group.push({ resolve: () => resolve(result), reject });
      } catch (error) {
        this.#undo(error);
        reject(error);
      }
    });
  }

  /** Reads the data, including earlier writes. Resolves when those are on disk. */
  read<Result>(work: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#assertOpen();
      const result = work();
      if (this.#group) this.#group.push({ resolve: () => resolve(result), reject });
      else resolve(result);
    });
  }

  /** Commits the open group and closes the connection. Later calls reject. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#commit();
    this.#sql.close();
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new Error("The store is closed.");
  }

  #open(): Member[] {
    this.#assertOpen();
    if (this.#group) return this.#group;

    this.#sql.run("begin immediate");
    setImmediate(() => this.#commit());
    this.#group = [];
    return this.#group;
  }

  #commit(): void {
    const group = this.#group;
    if (!group) return;

    this.#group = undefined;
    try {
      this.#sql.run("commit");
    } catch (error) {
      if (this.#sql.inTransaction()) this.#sql.run("rollback");
      for (const member of group) member.reject(error);
      return;
    }
    for (const member of group) member.resolve();
  }

  #undo(error: unknown): void {
    if (this.#sql.inTransaction()) {
      this.#sql.run("rollback to call");
      this.#sql.run("release call");
      return;
    }
    // SQLite rolls back the whole transaction if the disk is full or fails.
    const group = this.#group ?? [];
    this.#group = undefined;
    for (const member of group) member.reject(error);
  }
}
