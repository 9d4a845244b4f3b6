import { statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from "node:sqlite";
import type { z } from "zod";
import { DatabaseError, messageOf } from "#domain/errors.ts";
import { StoreClosedError } from "#runtime/store/store.ts";

type Values = Record<string, SQLInputValue>;

/** SQL with named values. Each statement is prepared once, and each row that is read is parsed. */
export type SqliteConnection = ReturnType<typeof connectionOf>;

/** Wraps an open database. `lock` is released when the connection is closed. */
export function connectionOf(database: DatabaseSync, lock: { close(): void }, path: string) {
  const health = new DatabaseHealth(database, path);
  const statements = new Map<string, Statement>();
  const prepared = (sql: string) => statements.getOrInsertComputed(sql, () => new Statement(database, sql));

  return {
    get: <Schema extends z.ZodType>(row: Schema, sql: string, values?: Values): z.output<Schema> | undefined => {
      const found = health.watch(() => prepared(sql).get(values));
      return found && row.parse(found);
    },
    all: <Schema extends z.ZodType>(row: Schema, sql: string, values?: Values): z.output<Schema>[] =>
      health.watch(() => prepared(sql).all(values)).map((found) => row.parse(found)),
    exists: (sql: string, values?: Values) => health.watch(() => prepared(sql).get(values)) !== undefined,
    /** Yields raw rows one by one, for a copy of the database. */
    rows: (sql: string): Iterable<Record<string, SQLOutputValue>> => database.prepare(sql).iterate(),
    /** Returns the number of changed rows. */
    run: (sql: string, values?: Values) => Number(health.watch(() => prepared(sql).run(values)).changes),
    /** Inserts one row and returns its row id. */
    insert: (sql: string, values?: Values) => Number(health.watch(() => prepared(sql).run(values)).lastInsertRowid),
    inTransaction: () => database.isTransaction,
    /** Throws if the file is no longer at its path: what is written to it would be lost when the process ends. */
    assertInPlace: () => health.assertInPlace(),
    /** Throws if the file is known to be unreadable or not writable. Called in a transaction, which writes after a problem. */
    ping: () => health.check(),
    close: (): void => {
      database.close();
      lock.close();
    },
  };
}

/** A prepared statement with named values. They are bound by position: Node takes twice as long to bind them by name. */
class Statement {
  readonly #names: string[] = [];
  readonly #statement: StatementSync;

  constructor(database: DatabaseSync, sql: string) {
    const positional = sql.replaceAll(/'[^']*'|:([a-zA-Z]\w*)/g, (found, name?: string) => {
      if (name === undefined) return found;
      if (!this.#names.includes(name)) this.#names.push(name);
      return `?${this.#names.indexOf(name) + 1}`;
    });
    this.#statement = database.prepare(positional);
  }

  get(values?: Values) {
    return this.#statement.get(...this.#bind(values));
  }

  all(values?: Values) {
    return this.#statement.all(...this.#bind(values));
  }

  run(values?: Values) {
    return this.#statement.run(...this.#bind(values));
  }

  #bind(values: Values = {}): SQLInputValue[] {
    return this.#names.map((name) => {
      const value = values[name];
      // SQLite would use null.
      if (value === undefined) throw new Error(`The value :${name} of a statement is missing.`);
      return value;
    });
  }
}

/** Records why the database could not be used, until a write succeeds again. */
class DatabaseHealth {
  readonly #database: DatabaseSync;
  readonly #path: string;
  /** Undefined for a database in memory. */
  readonly #file: string | undefined;
  #problem: DatabaseError | undefined;

  constructor(database: DatabaseSync, path: string) {
    this.#database = database;
    this.#path = path;
    this.#file = fileAt(path);
  }

  /** Throws a DatabaseError if `work` fails because of the file or its disk. */
  watch<Result>(work: () => Result): Result {
    try {
      return work();
    } catch (error) {
      this.#problem = problemOf(error, this.#path) ?? this.#problem;
      throw this.#problem?.cause === error ? this.#problem : error;
    }
  }

  assertInPlace(): void {
    if (this.#file === undefined || fileAt(this.#path) === this.#file) return;
    throw new DatabaseError(
      `The database ${this.#path} was deleted, moved or replaced while this process uses it. Put the file back, or stop the server and restore a backup with golem db restore.`,
    );
  }

  check(): void {
    this.assertInPlace();
    const version = this.watch(() => readPragma(this.#database, "user_version"));
    if (!this.#problem) return;
    const isFull = errorCodeOf(this.#problem.cause) === sqliteCodes.full && freeBytes(this.#path) < minFreeBytes;
    if (isFull) throw this.#problem;
    // The smallest possible write. If it fails when it is committed, that is the next problem.
    this.watch(() => this.#database.exec(`pragma user_version = ${version}`));
    if (errorCodeOf(this.#problem.cause) === sqliteCodes.corrupt) throw this.#problem;
    this.#problem = undefined;
  }
}

/** Identifies the file at a path; undefined if there is none. */
function fileAt(path: string): string | undefined {
  const file = statSync(path, { throwIfNoEntry: false });
  return file && `${file.dev} ${file.ino}`;
}

/** A disk with less space than this is treated as full, although the smallest write would succeed. */
const minFreeBytes = 1_000_000;

function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(resolve(path)));
  return bavail * bsize;
}

const sqliteCodes = { readOnly: 8, ioError: 10, corrupt: 11, full: 13, cannotOpen: 14, notADatabase: 26 };

/** Returns SQLite's error code without the details in its upper bits. */
function errorCodeOf(error: unknown): number | undefined {
  return error instanceof Error && "errcode" in error ? Number(error.errcode) & 0xff : undefined;
}

/** Explains a SQLite error that is caused by the file or its disk. */
export function problemOf(error: unknown, path: string): DatabaseError | undefined {
  const explain = (text: string) => new DatabaseError(text, { cause: error });
  switch (errorCodeOf(error)) {
    case sqliteCodes.full:
      return explain(
        `The disk of the database ${path} is full. Free some space. Until then no new work is accepted; accepted work is kept and resumes automatically.`,
      );
    case sqliteCodes.readOnly:
      return explain(`The database ${path} is read-only. Give this process write access to the file and its folder.`);
    case sqliteCodes.ioError:
      return explain(
        `The database ${path} cannot be read or written: ${messageOf(error)}. Check its disk, and the limits of this process.`,
      );
    case sqliteCodes.cannotOpen:
      return explain(
        `The database ${path} cannot be opened. Check that its folder exists and that this process may use it.`,
      );
    case sqliteCodes.notADatabase:
      return explain(
        `The database ${path} cannot be opened: it is damaged or not a SQLite database. Set DATABASE_URL to another file, or restore a backup with golem db restore.`,
      );
    case sqliteCodes.corrupt:
      return explain(
        `The database ${path} is damaged: ${messageOf(error)}. Stop the server, and restore a backup with golem db restore.`,
      );
    default:
      return undefined;
  }
}

export function readPragma(database: DatabaseSync, name: "user_version" | "application_id"): number {
  return Number(database.prepare(`pragma ${name}`).get()?.[name]);
}

/** A table of the database, with its statements. */
export abstract class Table {
  protected readonly sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.sql = sql;
  }
}

interface Member {
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Node accepts one new connection in each turn of the event loop. If each turn ended with an fsync, 50 deliveries that arrive at once
 * over as many connections would be acknowledged one after the other.
 */
const maxOpenMs = 4;

/**
 * Groups transactions into one commit, which costs an fsync. It is made when a turn of the event loop adds none, and after four
 * milliseconds at the latest. Promises settle after it.
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
      // Under a savepoint, SQLite copies each page before its first change. The first call of a group needs none.
      const isFirst = group.length === 0;
      if (!isFirst) this.#sql.run("savepoint call");
      try {
        const result = work();
        if (!isFirst) this.#sql.run("release call");
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
    if (this.#isClosed) throw new StoreClosedError();
  }

  #open(): Member[] {
    this.#assertOpen();
    if (this.#group) return this.#group;

    this.#sql.run("begin immediate");
    this.#group = [];
    this.#commitAfterTurn(this.#group, performance.now() + maxOpenMs);
    return this.#group;
  }

  #commitAfterTurn(group: Member[], latest: number, size = 0): void {
    setImmediate(() => {
      // It was rolled back, or committed by `close`.
      if (this.#group !== group) return;
      if (group.length > size && performance.now() < latest) this.#commitAfterTurn(group, latest, group.length);
      else this.#commit();
    });
  }

  #commit(): void {
    const group = this.#group;
    if (!group) return;

    this.#group = undefined;
    try {
      this.#sql.assertInPlace();
      this.#sql.run("commit");
    } catch (error) {
      if (this.#sql.inTransaction()) this.#sql.run("rollback");
      for (const member of group) member.reject(error);
      return;
    }
    for (const member of group) member.resolve();
  }

  #undo(error: unknown): void {
    const group = this.#group ?? [];
    if (group.length > 0 && this.#sql.inTransaction()) {
      this.#sql.run("rollback to call");
      this.#sql.run("release call");
      return;
    }
    // Either the first call has failed, or SQLite has rolled back the whole transaction: the disk is full or fails.
    this.#group = undefined;
    if (this.#sql.inTransaction()) this.#sql.run("rollback");
    for (const member of group) member.reject(error);
  }
}
