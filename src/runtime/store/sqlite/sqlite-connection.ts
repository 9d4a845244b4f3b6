import { mkdir, open, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from "node:sqlite";
import type { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { lockDatabase } from "./database-lock.ts";
import { sqliteMigrations } from "./migrations.ts";

type Values = Record<string, SQLInputValue>;

/** SQL with named values. Every statement is prepared once, and every row that is read is parsed. */
export interface SqliteConnection {
  get<Schema extends z.ZodType>(row: Schema, sql: string, values?: Values): z.output<Schema> | undefined;
  all<Schema extends z.ZodType>(row: Schema, sql: string, values?: Values): z.output<Schema>[];
  exists(sql: string, values?: Values): boolean;
  /** Reads rows one after the other, as they are stored; for a copy of the database. */
  rows(sql: string): Iterable<Record<string, SQLOutputValue>>;
  /** Returns the number of changed rows. */
  run(sql: string, values?: Values): number;
  /** Inserts one row and returns its row id. */
  insert(sql: string, values?: Values): number;
  inTransaction(): boolean;
  /** Throws when the file cannot be read. */
  ping(): void;
  close(): void;
}

const memory = ":memory:";

// "GLMF": identifies our files.
const applicationId = 0x474c4d46;

/**
 * Opens the database for this process alone and migrates its schema. Throws a UserError when another process uses the
 * file, when a newer release or another program wrote it, and when it cannot be opened.
 */
export async function openSqliteConnection(path: string): Promise<SqliteConnection> {
  if (path === memory) return connect(memory, { close: () => {} });

  try {
    const file = await resolvePath(path);
    const lock = lockDatabase(file);
    try {
      // SQLite would create a file that every user of the machine can read.
      await (await open(file, "a", 0o600)).close();
      return connect(file, lock);
    } catch (error) {
      lock.close();
      throw error;
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new UserError(`The database ${path} cannot be opened: ${reason}.`, { cause: error });
  }
}

/** Opens a database for reading, even while another process uses it. Throws a UserError when it cannot be read. */
export function openReadOnlyConnection(path: string): SqliteConnection {
  const database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  try {
    assertOwnDatabase(database, path);
    if (readPragma(database, "user_version") < sqliteMigrations.length) {
      throw new UserError(`The database ${path} was written by an older version of Golem Forge.`);
    }
    return connectionOf(database, { close: () => {} });
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Returns the real path of the file, so that two names for it share one lock. */
async function resolvePath(path: string): Promise<string> {
  const absolute = resolve(path);
  await mkdir(dirname(absolute), { recursive: true, mode: 0o700 });
  try {
    return await realpath(absolute);
  } catch {
    return join(await realpath(dirname(absolute)), basename(absolute));
  }
}

function connect(path: string, lock: { close(): void }): SqliteConnection {
  const database = new DatabaseSync(path, { timeout: 5_000, enableForeignKeyConstraints: true });
  try {
    assertOwnDatabase(database, path);
    database.exec("pragma journal_mode = wal");
    database.exec("pragma synchronous = full");
    // On macOS, fsync alone does not reach the disk. Elsewhere this has no effect.
    database.exec("pragma fullfsync = on");
    database.exec("pragma journal_size_limit = 67108864");
    migrate(database);
  } catch (error) {
    database.close();
    throw error;
  }
  return connectionOf(database, lock);
}

function connectionOf(database: DatabaseSync, lock: { close(): void }): SqliteConnection {
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
      const found = prepared(sql).get(values);
      return found && row.parse(found);
    },
    all: (row, sql, values = {}) =>
      prepared(sql)
        .all(values)
        .map((found) => row.parse(found)),
    exists: (sql, values = {}) => prepared(sql).get(values) !== undefined,
    rows: (sql) => prepared(sql).iterate(),
    run: (sql, values = {}) => Number(prepared(sql).run(values).changes),
    insert: (sql, values = {}) => Number(prepared(sql).run(values).lastInsertRowid),
    inTransaction: () => database.isTransaction,
    ping: () => {
      readPragma(database, "user_version");
    },
    close: () => {
      database.close();
      lock.close();
    },
  };
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
