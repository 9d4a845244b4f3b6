import { z } from "zod";
import { deferred } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import { openPostgresConnection, type PostgresConnection, type Sql } from "./postgres/postgres-connection.ts";
import { lockClass } from "./postgres/replicas.ts";
import { openSqliteConnection } from "./sqlite/open-database.ts";
import type { SqliteConnection } from "./sqlite/sqlite-connection.ts";

interface Table {
  name: string;
  /** Selects the rows from SQLite, in the order of insertion and with the columns of PostgreSQL. Default: all rows. */
  select?: string;
  /** The column with a PostgreSQL sequence. */
  counter?: string;
}

/** Ordered so that each row comes after the rows it refers to. */
export const tables: readonly Table[] = [
  { name: "repositories" },
  {
    name: "runs",
    // PostgreSQL compares names in lower case, while SQLite ignores case.
    select: `select runs.rowid as number, runs.*, spec, lower(owner) as owner, lower(repo) as repo,
      lower(requested_by) as requested_by from runs join specs on run_id = id order by runs.rowid`,
    counter: "number",
  },
  { name: "deliveries" },
  { name: "pending_deliveries", select: "select * from pending_deliveries order by number", counter: "number" },
  { name: "events", select: "select * from events order by id", counter: "id" },
  { name: "usage" },
  { name: "inbox" },
  {
    name: "effects",
    select: `select row_number() over (order by run_id, number) as id, run_id, key, queue, kind, due_at, attempts, claimed,
      repeat, problem, requested_at, input from effects order by run_id, number`,
    counter: "id",
  },
  { name: "timers" },
  { name: "approvals", select: "select * from approvals order by number", counter: "number" },
  { name: "posts" },
  { name: "blobs", select: "select hash, content from blobs" },
  { name: "change_sets", select: "select * from change_sets order by id", counter: "id" },
  {
    name: "changes",
    select: `select change_set, row_number() over (partition by change_set order by changes.id) as position, path, mode,
      hash as blob from changes left join blobs on blobs.id = changes.blob order by change_set, changes.id`,
  },
  { name: "ledger", select: "select * from ledger order by number" },
];

const maxRows = 500;
const maxBytes = 4 * 1024 * 1024;

const Count = z.object({ rows: z.number() });
const Id = z.object({ id: z.number() });
const Column = z.object({ name: z.string(), type: z.string() });

export type CopiedRows = Record<string, number>;

/**
 * Copies all data of a SQLite database into an empty PostgreSQL database, in one transaction, and compares the numbers
 * of rows. Throws a UserError, and copies nothing, while a process uses one of the databases, or if the target is not
 * empty.
 */
export async function copyDatabase(from: string, to: string): Promise<CopiedRows> {
  const source = await openSqliteConnection(from);
  try {
    const target = await openPostgresConnection(to);
    await using _ = deferred(() => target.close());
    return await target.transaction(async (sql) => ({ result: await copyTables(source, sql) }));
  } finally {
    source.close();
  }
}

async function copyTables(source: SqliteConnection, sql: Sql): Promise<CopiedRows> {
  // Replicas that start now wait until the copy is complete.
  await sql.run(`lock table replicas, ${tables.map(({ name }) => name).join(", ")} in exclusive mode`);
  await refuseReplicas(sql);
  const copied: CopiedRows = {};
  for (const { name } of tables) {
    if ((await countRows(sql, name)) === 0) continue;
    throw new UserError(`The target is not empty: its table ${name} has rows. Create a new database for the copy.`);
  }
  for (const table of tables) {
    const types = await columnTypes(sql, table.name);
    for (const batch of batchesOf(source, table)) await insert(sql, table.name, types, batch);
    if (table.counter !== undefined) await setCounter(sql, table.name, table.counter);
    copied[table.name] = await compareCounts(source, sql, table.name);
  }
  return copied;
}

/** Throws while a replica is running. A replica holds a lock on its id as long as it runs. */
async function refuseReplicas(sql: Sql): Promise<void> {
  const living = await sql.query(Id, "select id from replicas where not pg_try_advisory_xact_lock($1, id::integer)", [
    lockClass,
  ]);
  if (living.length === 0) return;
  throw new UserError(
    `The target is in use by ${living.length === 1 ? "a Golem Forge process" : `${living.length} Golem Forge processes`}. Stop them first.`,
  );
}

async function compareCounts(source: SqliteConnection, sql: Sql, name: string): Promise<number> {
  const expected = source.get(Count, `select count(*) as rows from ${name}`)?.rows ?? 0;
  const stored = await countRows(sql, name);
  if (stored === expected) return stored;
  throw new UserError(
    `Nothing was copied: of the ${expected} rows of ${name}, ${stored} arrived. Check the source with golem db check.`,
  );
}

async function countRows(sql: Pick<PostgresConnection, "query">, name: string): Promise<number> {
  return (await sql.query(Count, `select count(*) as rows from ${name}`))[0]?.rows ?? 0;
}

type Row = Record<string, unknown>;

function* batchesOf(source: SqliteConnection, { name, select = `select * from ${name}` }: Table): Generator<Row[]> {
  let batch: Row[] = [];
  let bytes = 0;
  for (const row of source.rows(select)) {
    batch.push(row);
    for (const value of Object.values(row)) {
      if (typeof value === "string" || value instanceof Uint8Array) bytes += value.length;
    }
    if (batch.length < maxRows && bytes < maxBytes) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

async function columnTypes(sql: Sql, table: string): Promise<ReadonlyMap<string, string>> {
  const columns = await sql.query(
    Column,
    `select attname as name, format_type(atttypid, null) as type from pg_attribute
      where attrelid = $1::text::regclass and attnum > 0 and not attisdropped`,
    [table],
  );
  return new Map(columns.map(({ name, type }) => [name, type]));
}

async function insert(
  sql: Sql,
  table: string,
  types: ReadonlyMap<string, string>,
  rows: readonly Row[],
): Promise<void> {
  const columns = Object.keys(rows[0] ?? {}).map((name) => {
    const type = types.get(name);
    if (type === undefined) throw new Error(`The table ${table} has no column ${name} in PostgreSQL.`);
    return { name, type };
  });
  const arrays = columns.map(({ type }, index) => `$${index + 1}::${type}[]`);
  await sql.run(
    `insert into ${table} (${columns.map(({ name }) => name).join(", ")}) overriding system value
      select * from unnest(${arrays.join(", ")})`,
    columns.map(({ name, type }) => rows.map((row) => toPostgres(row[name], type))),
  );
}

function toPostgres(value: unknown, type: string): unknown {
  if (type === "boolean") return value === 1;
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value ?? null;
}

async function setCounter(sql: Sql, table: string, column: string): Promise<void> {
  await sql.run(
    `select setval(pg_get_serial_sequence('${table}', '${column}'), coalesce(max(${column}), 1), max(${column}) is not null)
      from ${table}`,
  );
}
