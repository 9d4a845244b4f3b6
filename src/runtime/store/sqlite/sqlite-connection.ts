import { existsSync, statfsSync } from "node:fs";
import { mkdir, open, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from "node:sqlite";
import type { z } from "zod";
import { DatabaseError, UserError } from "#domain/errors.ts";
import { sqliteMigrations } from "./migrations.ts";

type Values = Record<string, SQLInputValue>;

/** SQL with named values. Each statement is prepared once, and each row that is read is parsed. */
export interface SqliteConnection {
  get<Schema extends z.ZodType>(row: Schema, sql: string, values?: Values): z.output<Schema> | undefined;
  all<Schema extends z.ZodType>(row: Schema, sql: string, values?: Values): z.output<Schema>[];
  exists(sql: string, values?: Values): boolean;
  /** Yields raw rows one by one, for a copy of the database. */
  rows(sql: string): Iterable<Record<string, SQLOutputValue>>;
  /** Returns the number of changed rows. */
  run(sql: string, values?: Values): number;
  /** Inserts one row and returns its row id. */
  insert(sql: string, values?: Values): number;
  inTransaction(): boolean;
  /** Throws if the file is known to be unreadable or not writable. */
  ping(): void;
  close(): void;
}

const memory = ":memory:";

// "GLMF": identifies our files.
const applicationId = 0x474c4d46;

/**
 * Opens the database for this process alone and migrates its schema. Throws a UserError if another process uses the
 * file, if a newer release or another program created it, or if it cannot be opened.
 */
export async function openSqliteConnection(path: string): Promise<SqliteConnection> {
  if (path === memory) return connect(memory, { close: () => {} });

  try {
    const file = await resolvePath(path);
    const lock = lockDatabase(file);
    try {
      // SQLite would create a file that all users of the machine can read.
      await (await open(file, "a", 0o600)).close();
      return connect(file, lock);
    } catch (error) {
      lock.close();
      throw error;
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    const problem = problemOf(error, path);
    if (problem) throw new UserError(problem.message, { cause: error });
    const reason = error instanceof Error ? reasonOf(error) : String(error);
    throw new UserError(`The database ${path} cannot be opened: ${reason}.`, { cause: error });
  }
}

/** Opens a database for reading, even while another process uses it. Throws a UserError if it cannot be read or is older. */
export function openReadOnlyConnection(path: string): SqliteConnection {
  const database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  try {
    assertOwnDatabase(database, path);
    if (readPragma(database, "user_version") < sqliteMigrations.length) {
      throw new OlderDatabaseError(
        `The database ${path} was written by an older version of Golem Forge. Start the server once, which upgrades it.`,
      );
    }
    return connectionOf(database, { close: () => {} }, path);
  } catch (error) {
    database.close();
    throw problemOf(error, path) ?? error;
  }
}

/** A database in memory that is persisted elsewhere, as an image and the changes since then. */
export interface RecordedDatabase {
  sql: SqliteConnection;
  /** True if the image has to be replaced, since schema changes are not recorded. */
  isMigrated: boolean;
  /** Returns the whole database. */
  image(): Uint8Array;
  /** True if something has changed since the last call of `takeChanges`. */
  hasChanges(): boolean;
  /** Returns the changes since the last call as a SQLite changeset. Must not be called in a transaction. */
  takeChanges(): Uint8Array;
}

/**
 * Opens a database in memory from an image and the changesets that followed it, or an empty one. Throws a UserError for
 * an image from a newer release.
 */
export function openRecordedDatabase(saved?: {
  image: Uint8Array;
  changesets: readonly Uint8Array[];
}): RecordedDatabase {
  const database = new DatabaseSync(memory, { enableForeignKeyConstraints: true });
  if (saved) {
    database.deserialize(saved.image);
    for (const changeset of saved.changesets) {
      if (!database.applyChangeset(changeset)) throw new Error("The saved changes do not fit the saved database.");
    }
  }
  assertOwnDatabase(database, "in the repository");
  const isMigrated = readPragma(database, "user_version") < sqliteMigrations.length;
  migrate(database);

  const changeCount = () => Number(database.prepare("select total_changes() as count").get()?.count);
  let taken = changeCount();
  let session = database.createSession();
  return {
    sql: connectionOf(database, { close: () => {} }, memory),
    isMigrated,
    image: () => database.serialize(),
    hasChanges: () => changeCount() > taken,
    takeChanges: () => {
      const changes = session.changeset();
      session.close();
      session = database.createSession();
      taken = changeCount();
      return changes;
    },
  };
}

/** Returns the real path of the file, so that different names for it share one lock. */
async function resolvePath(path: string): Promise<string> {
  const absolute = resolve(path);
  await createFolder(dirname(absolute));
  try {
    return await realpath(absolute);
  } catch {
    return join(await realpath(dirname(absolute)), basename(absolute));
  }
}

/** Creates a folder and those above it. Node's `recursive` option never returns below `/proc`, where nothing can be created. */
async function createFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await createFolder(dirname(folder));
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    // Another process was faster.
    if (error.code === "EEXIST") return;
    throw new UserError(
      `The folder ${folder} of the database cannot be created: ${reasonOf(error)}. Create it for this process, or set DATABASE_URL to another file.`,
      { cause: error },
    );
  });
}

function reasonOf({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case "EACCES":
    case "EPERM":
      return "this process may not write there";
    case "EROFS":
      return "the file system is read-only";
    case "ENOENT":
      return "no folder can be created there";
    case "ENOTDIR":
      return "a part of its path is a file";
    default:
      return message;
  }
}

function connect(path: string, lock: { close(): void }): SqliteConnection {
  const database = new DatabaseSync(path, { timeout: 5_000, enableForeignKeyConstraints: true });
  try {
    assertOwnDatabase(database, path);
    database.exec("pragma journal_mode = wal");
    database.exec("pragma synchronous = full");
    // On macOS, fsync alone does not flush to the disk. Elsewhere this has no effect.
    database.exec("pragma fullfsync = on");
    database.exec("pragma journal_size_limit = 67108864");
    migrate(database);
  } catch (error) {
    database.close();
    throw error;
  }
  return connectionOf(database, lock, path);
}

function connectionOf(database: DatabaseSync, lock: { close(): void }, path: string): SqliteConnection {
  const health = new DatabaseHealth(database, path);
  const statements = new Map<string, StatementSync>();
  const prepared = (sql: string): StatementSync => {
    const known = statements.get(sql);
    if (known) return known;
    const statement = database.prepare(sql);
    statements.set(sql, statement);
    return statement;
  };

  return {
    get: (row, sql, values = {}) => {
      const found = health.watch(() => prepared(sql).get(values));
      return found && row.parse(found);
    },
    all: (row, sql, values = {}) => health.watch(() => prepared(sql).all(values)).map((found) => row.parse(found)),
    exists: (sql, values = {}) => health.watch(() => prepared(sql).get(values)) !== undefined,
    rows: (sql) => prepared(sql).iterate(),
    run: (sql, values = {}) => Number(health.watch(() => prepared(sql).run(values)).changes),
    insert: (sql, values = {}) => Number(health.watch(() => prepared(sql).run(values)).lastInsertRowid),
    inTransaction: () => database.isTransaction,
    ping: () => health.check(),
    close: () => {
      database.close();
      lock.close();
    },
  };
}

/** Records why the database could not be used, until a write succeeds again. */
class DatabaseHealth {
  readonly #database: DatabaseSync;
  readonly #path: string;
  #problem: DatabaseError | undefined;

  constructor(database: DatabaseSync, path: string) {
    this.#database = database;
    this.#path = path;
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

  check(): void {
    const version = this.watch(() => readPragma(this.#database, "user_version"));
    if (!this.#problem) return;
    const isFull = codeOf(this.#problem.cause) === sqliteCodes.full && freeBytes(this.#path) < minFreeBytes;
    if (isFull || this.#database.isTransaction) throw this.#problem;
    // The smallest possible write.
    this.watch(() => this.#database.exec(`pragma user_version = ${version}`));
    if (codeOf(this.#problem.cause) === sqliteCodes.corrupt) throw this.#problem;
    this.#problem = undefined;
  }
}

/** A disk with less space than this is treated as full, although the smallest write would succeed. */
const minFreeBytes = 1_000_000;

function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(resolve(path)));
  return bavail * bsize;
}

const sqliteCodes = { readOnly: 8, ioError: 10, corrupt: 11, full: 13, cannotOpen: 14, notADatabase: 26 };

/** Returns SQLite's error code without the details in its upper bits. */
function codeOf(error: unknown): number | undefined {
  return error instanceof Error && "errcode" in error ? Number(error.errcode) & 0xff : undefined;
}

/** Explains a SQLite error that is caused by the file or its disk. */
function problemOf(error: unknown, path: string): DatabaseError | undefined {
  const explain = (text: string) => new DatabaseError(text, { cause: error });
  switch (codeOf(error)) {
    case sqliteCodes.full:
      return explain(
        `The disk of the database ${path} is full. Free some space. Until then nothing new is accepted; what was accepted is kept, and work continues by itself.`,
      );
    case sqliteCodes.readOnly:
      return explain(
        `The database ${path} is read-only. Give this process the right to write to the file and its folder.`,
      );
    case sqliteCodes.ioError:
      return explain(
        `The database ${path} cannot be read or written: ${(error as Error).message}. Check its disk, and the limits of this process.`,
      );
    case sqliteCodes.cannotOpen:
      return explain(
        `The database ${path} cannot be opened. Check that its folder exists and that this process may use it.`,
      );
    case sqliteCodes.notADatabase:
      return explain(
        `The database ${path} cannot be opened: it is damaged, or another kind of file. Set DATABASE_URL to another file, or restore a backup with golem db restore.`,
      );
    case sqliteCodes.corrupt:
      return explain(
        `The database ${path} is damaged: ${(error as Error).message}. Stop the server, and restore a backup with golem db restore.`,
      );
    default:
      return undefined;
  }
}

/** Throws a UserError for a database of another program or of a newer release. Called before anything is written. */
export function assertOwnDatabase(database: DatabaseSync, path: string): void {
  const version = readPragma(database, "user_version");
  const owner = readPragma(database, "application_id");
  if (owner !== applicationId && (owner !== 0 || version !== 0 || hasTables(database))) {
    throw new UserError(`The database ${path} belongs to another program. Set DATABASE_URL to another file.`);
  }
  if (version > sqliteMigrations.length) {
    throw new UserError(
      `The database ${path} was written by a newer version of Golem Forge (schema ${version}; this one supports up to ${sqliteMigrations.length}). Install that version again, or restore an older backup.`,
    );
  }
}

function migrate(database: DatabaseSync): void {
  const version = readPragma(database, "user_version");
  for (const [step, sql] of [...sqliteMigrations.entries()].slice(version)) {
    database.exec(
      `begin immediate; ${sql}; pragma application_id = ${applicationId}; pragma user_version = ${step + 1}; commit`,
    );
  }
}

function readPragma(database: DatabaseSync, name: "user_version" | "application_id"): number {
  return Number(database.prepare(`pragma ${name}`).get()?.[name]);
}

function hasTables(database: DatabaseSync): boolean {
  return database.prepare("select 1 from sqlite_schema limit 1").get() !== undefined;
}

const sqliteBusy = 5;

/** A database whose schema has to be migrated first. */
export class OlderDatabaseError extends UserError {
  override readonly name = "OlderDatabaseError";
}

/** Another process uses the database. */
export class DatabaseInUseError extends UserError {
  override readonly name = "DatabaseInUseError";
}

/**
 * Locks the database at this path for this process, until `close` is called or the process ends for any reason. Throws
 * a DatabaseInUseError if another process has the lock.
 */
export function lockDatabase(path: string): { close(): void } {
  // A separate file rather than `locking_mode = exclusive`, so that backups can read the database while it is in use.
  const lock = new DatabaseSync(`${path}.lock`);
  try {
    lock.exec("begin exclusive");
    return lock;
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw error;
    throw new DatabaseInUseError(
      `The database ${path} is in use by another Golem Forge process. Stop that one first, or set DATABASE_URL to another file.`,
      { cause: error },
    );
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === sqliteBusy;
}
