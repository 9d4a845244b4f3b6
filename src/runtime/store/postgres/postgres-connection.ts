import { createHash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { UserError } from "#domain/errors.ts";
import { isConnectionLost, isTransient } from "./connection-errors.ts";
import { describeDatabase } from "./describe-database.ts";
import { migrate, schema } from "./migrate.ts";

/** Statements on one connection, carried out in the order they were asked for; a turn's statements share a round trip. */
export interface Sql {
  /** Prepared once on each connection. Values are `$1`, `$2`. */
  query<Row>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Statements without values, several at a time, for the schema. */
  script(text: string): Promise<void>;
  /** For a library that brings statements of its own, and reads what they give as the driver does. */
  raw(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** What a transaction came to. */
export interface Outcome<Result> {
  result: Result;
  /** Everything it wrote is undone. */
  undo?: true;
}

export interface PostgresConnection extends Pick<Sql, "query" | "raw"> {
  /**
   * All or nothing, at READ COMMITTED. What the server refused for the moment (a deadlock, a restart) is tried again;
   * not so when the connection breaks during the commit, since nobody knows then whether it stands: that is an error.
   */
  transaction<Result>(work: (sql: Sql) => Promise<Outcome<Result>>): Promise<Result>;
  /** A session of its own beside the pool, for locks and notifications that last as long as it does. */
  connect(): Promise<pg.Client>;
  close(): Promise<void>;
}

const attempts = 6;
const firstPauseMs = 50;

// A text of JSON stays one, since the store says where it could not be read; counts and ids are below 2^53.
const oids = { json: 114, int8: 20 };
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: "text" | "binary") => {
    if (oid === oids.json) return (text: string) => text;
    if (oid === oids.int8) return Number;
    return pg.types.getTypeParser(oid, format as "text");
  },
};

// Whoever turned it off for the server did not do it for us: what is acknowledged is on disk.
const setUp = `set search_path to ${schema};
  select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'`;

/** Opens the database and brings its schema up to date. Throws a UserError, without the password, when that cannot be. */
export async function openPostgresConnection(url: string): Promise<PostgresConnection> {
  const database = describeDatabase(url);
  const options = {
    connectionString: url,
    application_name: "golem-forge",
    keepAlive: true,
    connectionTimeoutMillis: 5_000,
  };
  const pool = new pg.Pool({ ...options, pipeline: true });
  // The pool replaces connections that break; whoever was using one is told by its query.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => {
    client.on("error", () => undefined);
    client.query(setUp).catch(() => undefined);
  });

  async function transaction<Result>(work: (sql: Sql) => Promise<Outcome<Result>>): Promise<Result> {
    return again(async () => {
      const client = await pool.connect();
      let committing = false;
      let broken = false;
      try {
        // Not waited for, so that it shares a round trip with the first statement.
        const begun = client.query("begin");
        begun.catch(() => undefined);
        const { result, undo } = await work(sqlOn(client));
        committing = !undo;
        await client.query(undo ? "rollback" : "commit");
        return result;
      } catch (error) {
        broken = isConnectionLost(error);
        if (broken && committing) {
          throw new Error("The connection to the database broke during a commit, so nobody knows whether it stands.", {
            cause: error,
          });
        }
        if (!broken) await client.query("rollback").catch(() => (broken = true));
        throw error;
      } finally {
        client.release(broken);
      }
    });
  }

  const query: Sql["query"] = (text, values) => again(() => sqlOn(pool).query(text, values));

  try {
    await transaction(async (sql) => ({ result: await migrate(sql, database) }));
  } catch (error) {
    await pool.end();
    if (error instanceof UserError) throw error;
    throw new UserError(`The database ${database} cannot be opened: ${reasonOf(error)}.`, { cause: error });
  }

  return {
    query,
    transaction,
    connect: async () => {
      const client = new pg.Client(options);
      client.on("error", () => undefined);
      await client.connect();
      await client.query(setUp);
      return client;
    },
    raw: (text, values) => again(() => sqlOn(pool).raw(text, values)),
    close: () => pool.end(),
  };
}

async function again<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (attempt === attempts || !isTransient(error)) throw error;
      await pause(firstPauseMs * 2 ** (attempt - 1));
    }
  }
}

function sqlOn(client: pg.Pool | pg.PoolClient): Sql {
  return {
    query: async <Row>(text: string, values: readonly unknown[] = []) => {
      const { rows } = await client.query({ name: nameOf(text), text, values: [...values], types });
      return rows as Row[];
    },
    script: async (text) => {
      await client.query(text);
    },
    raw: (text, values) => client.query(text, values),
  };
}

const names = new Map<string, string>();

function nameOf(text: string): string {
  const known = names.get(text);
  if (known) return known;
  const name = createHash("sha256").update(text).digest("hex").slice(0, 24);
  names.set(text, name);
  return name;
}

function reasonOf(error: unknown): string {
  // Several addresses of one host failed, each for its own reason.
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(", ");
  return error instanceof Error ? error.message.replace(/\.$/, "") : String(error);
}
