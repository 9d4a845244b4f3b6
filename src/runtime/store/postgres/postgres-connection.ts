import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { z } from "zod";
import { DatabaseError, reasonOf, UserError } from "#domain/errors.ts";
import { migrate, schema } from "./migrations.ts";

/** One connection. Statements run in the order of their calls; those of one event loop turn share a round trip. */
export interface Sql {
  /** Returns the parsed rows. Each statement is prepared once per connection; its values are `$1`, `$2`. */
  query<Schema extends z.ZodType>(row: Schema, text: string, values?: readonly unknown[]): Promise<z.output<Schema>[]>;
  /** Returns the number of changed or returned rows. */
  run(text: string, values?: readonly unknown[]): Promise<number>;
  /** Runs several statements without values, for the schema. */
  script(text: string): Promise<void>;
  /** For a library with its own statements, which reads rows as the driver returns them. */
  raw(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

export interface Outcome<Result> {
  result: Result;
  /** The transaction is rolled back. */
  undo?: true;
}

export interface PostgresConnection extends Omit<Sql, "script"> {
  /**
   * Runs a transaction at READ COMMITTED. Retries it after a temporary failure, such as a deadlock or a restart. If the
   * connection breaks during the commit, it is unknown if the commit succeeded, which is an error.
   */
  transaction<Result>(work: (sql: Sql) => Promise<Outcome<Result>>): Promise<Result>;
  /** Opens a session outside the pool, for locks and notifications that last as long as the session. */
  connect(): Promise<pg.Client>;
  /** Rejects if the database is known to be unreachable or not writable. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

const Session = z.object({ pid: z.number() });

const maxAttempts = 6;
const firstPauseMs = 50;

// JSON stays text, since it is parsed by its reader. Counts and ids are below 2^53.
const oids = { json: 114, int8: 20 };
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: "text" | "binary") => {
    if (oid === oids.json) return (text: string) => text;
    if (oid === oids.int8) return Number;
    // The driver's types lack the overload for both formats.
    return format === "binary" ? pg.types.getTypeParser(oid, "binary") : pg.types.getTypeParser(oid, "text");
  },
};

/**
 * Returns SQL for a `json` column whose members can be selected. To select any member, PostgreSQL decodes the escapes of the
 * whole document, and fails for `\u0000` and half a surrogate pair, which texts may contain. So these are left out.
 */
export function readableJson(column: string): string {
  const unescaped = String.raw`regexp_replace(replace(${column}::text, '\\', ''), '\\u[[:xdigit:]]{4}', '', 'g')::json`;
  return String.raw`(case when strpos(${column}::text, '\u') > 0 then ${unescaped} else ${column} end)`;
}

// A commit must be on disk, even if the server's default says otherwise. The locks of a process that was suspended within a
// transaction must not keep others waiting: the server ends its session.
const sessionSetup = `set search_path to ${schema};
  set idle_in_transaction_session_timeout to '5s';
  select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'`;

/** Opens the database and migrates its schema. Throws a UserError, without the password, if it cannot be opened. */
export async function openPostgresConnection(url: string): Promise<PostgresConnection> {
  const database = describeDatabase(url);
  const options = {
    connectionString: url,
    application_name: "golem-forge",
    keepAlive: true,
    connectionTimeoutMillis: 5_000,
  };
  const pool = new pg.Pool({ ...options, pipeline: true });
  // The pool replaces broken connections. Queries that were running on them reject.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => {
    client.on("error", () => undefined);
    client.query(sessionSetup).catch(() => undefined);
  });

  /** The reason that the last write could not be stored, until a write succeeds again. */
  let problem: DatabaseError | undefined;
  const attempt = <Result>(work: () => Promise<Result>): Promise<Result> =>
    withRetries(work).catch((error: unknown) => {
      const found = problemOf(error, database);
      if (found && cannotWriteCodes.includes(errorCodeOf(error))) problem = found;
      throw found ?? error;
    });
  const connection: PostgresConnection = {
    query: (row, text, values) => attempt(() => sqlOn(pool).query(row, text, values)),
    run: (text, values) => attempt(() => sqlOn(pool).run(text, values)),
    raw: (text, values) => attempt(() => sqlOn(pool).raw(text, values)),
    transaction: (work) => attempt(() => runTransaction(pool, work)),
    ping: async () => {
      if (problem) await connection.transaction(tryLargeWrite);
      else await connection.run("select 1");
      problem = undefined;
    },
    connect: () => attempt(() => openSession(options)),
    close: () => pool.end(),
  };
  try {
    await withRetries(() => requireSessions(options, database));
    await connection.transaction(async (sql) => ({ result: await migrate(sql, database) }));
    return connection;
  } catch (error) {
    await pool.end();
    if (error instanceof UserError) throw error;
    const reason = describeConnectionError(error instanceof DatabaseError ? error.cause : error);
    throw new UserError(`The database ${database} cannot be opened: ${reason}.`, { cause: error });
  }
}

async function openSession(options: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(options);
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.query(sessionSetup);
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
}

/**
 * Throws a UserError if transactions of one client run in different sessions, as behind a pooler in transaction mode:
 * locks, notifications, settings and prepared statements of a session would be lost or reach another client.
 */
async function requireSessions(options: pg.ClientConfig, database: string): Promise<void> {
  const [one, other] = [new pg.Client(options), new pg.Client(options)];
  for (const client of [one, other]) client.on("error", () => undefined);
  const refusal = (cause?: unknown) =>
    new UserError(
      `The database ${database} is behind a connection pooler that shares sessions, such as PgBouncer in transaction mode. Point DATABASE_URL at the server itself, or at a pool in session mode.`,
      { cause },
    );
  try {
    await Promise.all([one.connect(), other.connect()]);
    const first = await sessionOf(one);
    // PgBouncer's statement mode refuses this.
    await other.query("begin").catch((error) => {
      throw /pooling mode/.test(describeConnectionError(error)) ? refusal(error) : error;
    });
    // A pooler gives the session that was released last to the next transaction, and another one to the first client.
    if ((await sessionOf(other)) === first || (await sessionOf(one)) !== first) throw refusal();
  } finally {
    await Promise.all([one.end(), other.end()]).catch(() => undefined);
  }
}

async function sessionOf(client: pg.Client): Promise<number | undefined> {
  const { rows } = await client.query("select pg_backend_pid() as pid");
  return Session.parse(rows[0]).pid;
}

/** Writes about a megabyte, and takes it back. A small write may succeed on a full disk, in space that is already allocated. */
async function tryLargeWrite(sql: Sql): Promise<Outcome<undefined>> {
  await sql.run(`insert into pending_deliveries (key, queue, content, received_at)
    select '', '', to_json(string_agg(md5(random()::text), '')), 0 from generate_series(1, 32768)`);
  return { result: undefined, undo: true };
}

async function runTransaction<Result>(pool: pg.Pool, work: (sql: Sql) => Promise<Outcome<Result>>): Promise<Result> {
  const client = await pool.connect();
  let isOpen = true;
  let isCommitting = false;
  let isBroken = false;
  try {
    // Not awaited, so that it shares a round trip with the first statement.
    const begun = client.query("begin");
    begun.catch(() => undefined);
    const { result, undo } = await work(sqlOn(client, () => isOpen)).finally(() => {
      isOpen = false;
    });
    isCommitting = !undo;
    const { command } = await client.query(undo ? "rollback" : "commit");
    // The server rolls a transaction back at its commit if a statement has failed and nobody noticed.
    if (isCommitting && command !== "COMMIT") throw new Error("A transaction was rolled back instead of committed.");
    return result;
  } catch (error) {
    // After a failover the pool may still be connected to a server that has become read-only.
    isBroken = isConnectionLost(error) || errorCodeOf(error) === readOnly;
    if (isBroken && isCommitting) {
      throw new DatabaseError(
        "The connection to the database was lost during a commit, which may or may not have succeeded.",
        { cause: error },
      );
    }
    if (!isBroken) await client.query("rollback").catch(() => (isBroken = true));
    throw error;
  } finally {
    client.release(isBroken);
  }
}

async function withRetries<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (attempt === maxAttempts || !isTemporary(error)) throw error;
      await pause(firstPauseMs * 2 ** (attempt - 1));
    }
  }
}

/** `isOpen` is false after a rollback: other concurrent parts of the transaction must not continue. */
function sqlOn(client: pg.Pool | pg.PoolClient, isOpen = () => true): Sql {
  const assertOpen = () => {
    if (!isOpen()) throw new Error("The transaction has ended.");
  };
  const execute = (text: string, values: readonly unknown[] = []) => {
    assertOpen();
    return client.query({ name: statementName(text), text, values: [...values], types });
  };
  return {
    query: async (row, text, values) => (await execute(text, values)).rows.map((found) => row.parse(found)),
    run: async (text, values) => (await execute(text, values)).rowCount ?? 0,
    script: async (text) => {
      assertOpen();
      await client.query(text);
    },
    raw: async (text, values) => {
      assertOpen();
      return client.query(text, values);
    },
  };
}

const statementNames = new Map<string, string>();

function statementName(text: string): string {
  return statementNames.getOrInsertComputed(text, () => createHash("sha256").update(text).digest("hex").slice(0, 24));
}

/** Names a database for messages, without user and password. Throws a UserError if its address is invalid. */
export function describeDatabase(url: string): string {
  try {
    const { host, port, database } = new pg.Client({ connectionString: url });
    return `${database ?? "of the user"} at ${host}:${port}`;
  } catch (error) {
    const path = error instanceof Error && "path" in error && `${error.path} cannot be read (${errorCodeOf(error)})`;
    // Without the cause, which may quote the address and its password.
    throw new UserError(`DATABASE_URL cannot be used: ${path || "it is not the address of a PostgreSQL database"}.`);
  }
}

const serializationFailure = "40001";
const deadlock = "40P01";
const tooManyConnections = "53300";
const diskFull = "53100";
const readOnly = "25006";
const ioError = "58030";
const cannotWriteCodes = [diskFull, readOnly, ioError];
const socketCodes = ["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "ENOENT", "EHOSTUNREACH"];

/** Returns true if the connection is lost: the server has stopped, or the network is down. */
function isConnectionLost(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every(isConnectionLost);
  const code = errorCodeOf(error);
  // 57P01 to 57P03: the server is shutting down, was killed, or is starting. 25P03: a transaction was idle for too long.
  if (/^08/.test(code) || /^(?:57P0[123]|25P03)$/.test(code) || socketCodes.includes(code)) return true;
  return (
    error instanceof Error &&
    /^Connection terminated|^Client has encountered a connection error|^timeout exceeded when trying to connect/.test(
      error.message,
    )
  );
}

/** Returns true if the same work may succeed a moment later, provided that none of it was stored. */
function isTemporary(error: unknown): boolean {
  return isConnectionLost(error) || [serializationFailure, deadlock, tooManyConnections].includes(errorCodeOf(error));
}

/** Explains a failure of the server, its disk or the connection to it. */
function problemOf(error: unknown, database: string): DatabaseError | undefined {
  const explain = (text: string) => new DatabaseError(text, { cause: error });
  switch (errorCodeOf(error)) {
    case diskFull:
      return explain(
        `The disk of the database ${database} is full. Free some space. Until then no new work is accepted; accepted work is kept and resumes automatically.`,
      );
    case readOnly:
      return explain(`The database ${database} is read-only. Point DATABASE_URL at the primary server.`);
    case ioError:
    case "XX001":
    case "XX002":
      return explain(`The database ${database} cannot read or write its files: ${describeConnectionError(error)}.`);
    default:
      return isTemporary(error)
        ? explain(`The database ${database} does not answer: ${describeConnectionError(error)}.`)
        : undefined;
  }
}

function errorCodeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

function describeConnectionError(error: unknown): string {
  // Each address of the host failed for a different reason.
  if (error instanceof AggregateError) return error.errors.map(describeConnectionError).join(", ");
  return reasonOf(error);
}
