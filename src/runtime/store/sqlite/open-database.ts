import { existsSync } from "node:fs";
import { mkdir, open, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { UserError } from "#domain/errors.ts";
import { assertReadableSchema } from "#runtime/store/stored-rows.ts";
import { sqliteMigrations } from "./migrations.ts";
import { connectionOf, problemOf, readPragma, type SqliteConnection } from "./sqlite-connection.ts";

/** Loaded at first use: modules of custom tools import the public API as well, in a process that has no access to SQLite. */
const sqlite = () => process.getBuiltinModule("node:sqlite");

const memory = ":memory:";

// "GLMF": identifies our files.
const applicationId = 0x474c4d46;

/**
 * Opens the database for this process alone and migrates its schema. Throws a UserError if another process uses the
 * file, if a newer release or another program created it, or if it cannot be opened.
 */
export async function openSqliteConnection(path: string): Promise<SqliteConnection> {
  if (path === memory) return openMemoryConnection();

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
    const reason = error instanceof Error ? describeOpenError(error) : String(error);
    throw new UserError(`The database ${path} cannot be opened: ${reason}.`, { cause: error });
  }
}

export function openMemoryConnection(): SqliteConnection {
  return connectionOf(createMemoryDatabase(), { close: () => {} }, memory);
}

/** The image of an empty database. Loading it takes 0.2 ms, creating all tables 5 ms. */
let emptyDatabase: Uint8Array | undefined;

/** Creates a database in memory. Loads the image, or creates the tables if there is none. */
function createMemoryDatabase(image = emptyDatabase): DatabaseSync {
  const database = new (sqlite().DatabaseSync)(memory, { enableForeignKeyConstraints: true });
  if (image) database.deserialize(image);
  else {
    migrate(database);
    emptyDatabase = database.serialize();
  }
  return database;
}

/** Opens a database for reading, even while another process uses it. Throws a UserError if it cannot be read or is older. */
export function openReadOnlyConnection(path: string): SqliteConnection {
  const database = new (sqlite().DatabaseSync)(path, { readOnly: true, timeout: 5_000 });
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
export type RecordedDatabase = ReturnType<typeof openRecordedDatabase>;

/** Opens an image and its later changesets in memory, or an empty database. Throws a UserError for a newer image. */
export function openRecordedDatabase(saved?: { image: Uint8Array; changesets: readonly Uint8Array[] }) {
  const database = createMemoryDatabase(saved?.image);
  for (const changeset of saved?.changesets ?? []) {
    if (!database.applyChangeset(changeset)) throw new Error("The saved changes do not match the saved database.");
  }
  assertOwnDatabase(database, "in the repository");
  const isMigrated = !saved || readPragma(database, "user_version") < sqliteMigrations.length;
  migrate(database);

  const changeCount = () => Number(database.prepare("select total_changes() as count").get()?.count);
  let taken = changeCount();
  let session = database.createSession();
  return {
    sql: connectionOf(database, { close: () => {} }, memory),
    /** True if the image has to be replaced, since schema changes are not recorded. */
    isMigrated,
    /** Returns the whole database. */
    image: (): Uint8Array => database.serialize(),
    /** True if something has changed since the last call of `takeChanges`. */
    hasChanges: () => changeCount() > taken,
    /** Returns the changes since the last call as a SQLite changeset. Must not be called in a transaction. */
    takeChanges: (): Uint8Array => {
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
      `The folder ${folder} of the database cannot be created: ${describeOpenError(error)}. Create it for this process, or set DATABASE_URL to another file.`,
      { cause: error },
    );
  });
}

function describeOpenError({ code, message }: NodeJS.ErrnoException): string {
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
  const database = new (sqlite().DatabaseSync)(path, { timeout: 5_000, enableForeignKeyConstraints: true });
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

/** Throws a UserError for a database that another program wrote, or a release that this one cannot read. Called before anything is written. */
export function assertOwnDatabase(database: DatabaseSync, path: string): void {
  const version = readPragma(database, "user_version");
  const owner = readPragma(database, "application_id");
  if (owner !== applicationId && (owner !== 0 || version !== 0 || hasTables(database))) {
    throw new UserError(`The database ${path} belongs to another program. Set DATABASE_URL to another file.`);
  }
  assertReadableSchema(path, version, sqliteMigrations.length);
}

function migrate(database: DatabaseSync): void {
  const steps = sqliteMigrations.slice(readPragma(database, "user_version"));
  if (steps.length === 0) return;
  const marks = `pragma application_id = ${applicationId}; pragma user_version = ${sqliteMigrations.length}`;
  database.exec(`begin immediate; ${steps.join(";\n")}; ${marks}; commit`);
}

function hasTables(database: DatabaseSync): boolean {
  return database.prepare("select 1 from sqlite_schema limit 1").get() !== undefined;
}

const sqliteBusy = 5;

/** A database whose schema has to be migrated first. */
export class OlderDatabaseError extends UserError {
  override readonly name = "OlderDatabaseError";
}

export class DatabaseInUseError extends UserError {
  override readonly name = "DatabaseInUseError";
}

/** Locks a database until `close` or the end of this process. Throws a DatabaseInUseError if it is locked. */
export function lockDatabase(path: string): { close(): void } {
  // A separate file rather than `locking_mode = exclusive`, so that backups can read the database while it is in use.
  const lock = new (sqlite().DatabaseSync)(`${path}.lock`);
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
