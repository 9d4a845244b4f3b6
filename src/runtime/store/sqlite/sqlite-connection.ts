import { mkdir, open, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { UserError } from "#domain/errors.ts";
import { lockDatabase } from "./database-lock.ts";
import { migrations } from "./migrations.ts";

type Values = Record<string, SQLInputValue>;

/** SQL with named values; every statement is prepared once. */
export interface SqliteConnection {
  get<Row>(sql: string, values?: Values): Row | undefined;
  all<Row>(sql: string, values?: Values): Row[];
  /** The number of rows changed. */
  run(sql: string, values?: Values): number;
  /** Like `run` for one inserted row, and gives its row id. */
  insert(sql: string, values?: Values): number;
  inTransaction(): boolean;
  /** Throws when the file does not answer. */
  ping(): void;
  close(): void;
}

const memory = ":memory:";

// "GLMF": tells our files from those of other programs.
const applicationId = 0x474c4d46;

/**
 * Opens the database and brings its schema up to date, and is the only process that has it. Throws a UserError when
 * another process has it, or when the file is newer than this program, not ours, or out of reach.
 */
export async function openSqliteConnection(path: string): Promise<SqliteConnection> {
  if (path === memory) return connect(memory, { close: () => {} });

  try {
    const file = await settlePath(path);
    const lock = lockDatabase(file);
    try {
      // Created here, since SQLite would let everyone on the machine read it.
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

/** Opens a database for reading, also one that another process uses. Throws a UserError when it cannot be read. */
export function openReadOnlyConnection(path: string): SqliteConnection {
  const database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  try {
    refuseStrangers(database, path);
    if (readPragma(database, "user_version") < migrations.length) {
      throw new UserError(`The database ${path} was written by an older version of Golem Forge.`);
    }
    return connectionOf(database, { close: () => {} });
  } catch (error) {
    database.close();
    throw error;
  }
}

/** The one true path of the file, so that two names for it are one lock. */
async function settlePath(path: string): Promise<string> {
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
    refuseStrangers(database, path);
    database.exec("pragma journal_mode = wal");
    database.exec("pragma synchronous = full");
    // On macOS a plain fsync does not reach the disk; elsewhere this does nothing.
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
    get: <Row>(sql: string, values: Values = {}) => prepared(sql).get(values) as Row | undefined,
    all: <Row>(sql: string, values: Values = {}) => prepared(sql).all(values) as Row[],
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

/** Looks before anything is written. */
function refuseStrangers(database: DatabaseSync, path: string): void {
  const version = readPragma(database, "user_version");
  const owner = readPragma(database, "application_id");
  if (owner !== applicationId && (owner !== 0 || version !== 0 || hasTables(database))) {
    throw new UserError(`The database ${path} belongs to another program. Set DATABASE_URL to a file of its own.`);
  }
  if (version > migrations.length) {
    throw new UserError(
      `The database ${path} was written by a newer version of Golem Forge (schema ${version}, this one knows ${migrations.length}). Install that version again, or restore a backup from before.`,
    );
  }
}

function migrate(database: DatabaseSync): void {
  const version = readPragma(database, "user_version");
  for (const [step, sql] of [...migrations.entries()].slice(version)) {
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
