import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { assertReadableSchema, restoredMarks } from "#runtime/store/stored-rows.ts";

/**
 * The steps of the schema. `schema_version` counts the steps that were applied to a database. A released step is never
 * edited: a change is a new step at the end, and replicas of the previous release must still work after it.
 *
 * `json` rather than `jsonb`, which changes the text it stores and refuses \\u0000.
 */
const postgresMigrations: readonly string[] = [
  `
  create table deliveries (
    guid text not null,
    part text not null,
    result json,
    received_at double precision not null,
    primary key (guid, part)
  );
  create index deliveries_by_age on deliveries (received_at);

  create sequence replica_ids;
  create table replicas (
    id bigint primary key,
    joined_at timestamptz not null default now()
  );

  create table runs (
    number bigint generated always as identity,
    id text primary key,
    root_id text not null,
    parent_id text,
    owner text not null,
    repo text not null,
    thread integer not null,
    requested_by text not null,
    created_at double precision not null,
    updated_at double precision not null,
    status text not null,
    version integer not null default 0,
    change_sets integer not null default 0,
    last_event bigint not null default 0,
    last_seen_event bigint not null default 0,
    holder bigint,
    job uuid,
    wake_requested boolean not null default false,
    snapshot json not null,
    spec json not null
  );
  create index runs_of_thread on runs (owner, repo, thread, number) where parent_id is null;
  create index runs_of_repository on runs (owner, repo, created_at) where parent_id is null;
  create index runs_of_person on runs (requested_by, created_at) where parent_id is null;
  create index runs_by_age on runs (created_at) where parent_id is null;
  create index runs_of_parent on runs (parent_id, number) where parent_id is not null;
  create index runs_unseen on runs (id) where last_event > last_seen_event and status <> 'done';
  create index runs_held on runs (holder) where holder is not null;

  create table events (
    id bigint generated always as identity primary key,
    run_id text not null,
    at double precision not null,
    dedupe text,
    event json not null
  );
  create index events_of_run on events (run_id, id);
  create unique index events_once on events (dedupe) where dedupe is not null;

  create table inbox (
    run_id text not null,
    event_id bigint not null,
    primary key (run_id, event_id)
  );

  create table effects (
    id bigint generated always as identity primary key,
    key text not null unique,
    run_id text not null references runs (id),
    queue text not null,
    kind text not null,
    input json not null,
    due_at double precision not null,
    attempts integer not null default 0,
    claimed boolean not null default false,
    repeat boolean not null default false,
    problem text
  );
  create index effects_of_queue on effects (run_id, queue, id);
  create index effects_due on effects (due_at);

  create table timers (
    run_id text not null references runs (id),
    timer text not null,
    due_at double precision not null,
    primary key (run_id, timer)
  );
  create index timers_due on timers (due_at);

  create table approvals (
    number bigint generated always as identity,
    id text primary key,
    run_id text not null references runs (id),
    root_id text not null,
    status text not null,
    expires_at double precision not null,
    approval json not null
  );
  create index approvals_of_root on approvals (root_id, number);
  create index approvals_pending on approvals (run_id) where status = 'pending';
  create index approvals_expiring on approvals (expires_at) where status = 'pending';

  create table posts (
    name text primary key,
    comment_id bigint not null,
    updated_at double precision not null
  );

  create table blobs (
    hash bytea primary key,
    content bytea not null
  );
  create table change_sets (
    id bigint generated always as identity primary key,
    run_id text not null references runs (id),
    step text not null
  );
  create index change_sets_of_run on change_sets (run_id, id);
  create table changes (
    change_set bigint not null references change_sets (id),
    position integer not null,
    path text not null,
    mode text not null,
    blob bytea references blobs (hash),
    primary key (change_set, position)
  );
  `,
  `
  create table repositories (
    id bigint primary key,
    installation_id bigint not null,
    owner_id bigint not null,
    owner text not null,
    repo text not null,
    since double precision not null
  );
  create index repositories_of_installation on repositories (installation_id);
  alter table runs add column repository_id bigint;
  create index runs_of_location on runs (repository_id, thread, number) where parent_id is null;
  create index runs_of_location_by_age on runs (repository_id, created_at) where parent_id is null;
  create index runs_without_location on runs (owner, repo, created_at) where repository_id is null;
  create index runs_without_location_of_installation on runs (((spec->'origin'->>'installationId')::bigint))
    where repository_id is null and parent_id is null and status <> 'done';
  `,
  `
  create table pending_deliveries (
    number bigint generated always as identity primary key,
    key text not null unique,
    queue text not null,
    content json not null,
    received_at double precision not null,
    due_at double precision not null default 0,
    attempts integer not null default 0
  );
  create index pending_deliveries_of_queue on pending_deliveries (queue, number);
  create index pending_deliveries_due on pending_deliveries (due_at, number);
  `,
  `
  alter table runs add column pull_request integer;
  create index runs_of_pull_request on runs (repository_id, pull_request) where pull_request is not null;
  `,
  // No foreign keys, since the ledger outlives the runs.
  `
  create table ledger (
    number bigint primary key,
    hash text not null,
    entry text not null
  );
  create function refuse_ledger_change() returns trigger language plpgsql as
    'begin raise exception ''The ledger is append-only.''; end';
  create trigger ledger_is_append_only before update or delete or truncate on ledger
    for each statement execute function refuse_ledger_change();
  `,
  // The costs of earlier runs count for the hour in which the run started, with those of its children and without tokens.
  `
  create table usage (
    hour integer not null,
    run_id text not null,
    root_id text not null,
    worker text not null,
    repository_id bigint,
    installation_id bigint not null,
    owner text not null,
    repo text not null,
    model_calls bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cached_input_tokens bigint not null,
    cost double precision not null,
    primary key (hour, run_id)
  );
  insert into usage
    select floor(created_at / 3600000)::integer, id, root_id, coalesce(spec -> 'worker' ->> 'name', ''),
        repository_id, coalesce((spec -> 'origin' ->> 'installationId')::bigint, 0), owner, repo,
        (snapshot -> 'context' ->> 'steps')::bigint, 0, 0, 0, (snapshot -> 'context' ->> 'cost')::double precision
      from runs where parent_id is null and (snapshot -> 'context' ->> 'steps')::bigint > 0;

  alter table effects add column requested_at double precision not null default 0;
  alter table runs add column state text;
  update runs set state = coalesce(snapshot -> 'value' ->> 'handlingCalls', snapshot ->> 'value')
    where status = 'waiting';
  create index runs_by_state on runs (coalesce(state, 'working')) where status in ('active', 'waiting');
  `,
  `
  alter table runs add column log_removed_at double precision;
  create index runs_with_log on runs (updated_at) where parent_id is null and status = 'done' and log_removed_at is null;
  create index runs_of_root on runs (root_id) where parent_id is not null;
  create index changes_of_blob on changes (blob) where blob is not null;
  `,
  "alter table pending_deliveries add column failures integer not null default 0",
  "alter table posts add column shown text",
  // Runs with unseen events are found by their inboxes, which are almost empty.
  "drop index runs_unseen",
  "alter table pending_deliveries add column claimed_by bigint",
];

const Name = z.object({ name: z.string() });
const Version = z.object({ version: z.number() });
const Identity = z.object({ id: z.string(), known: z.string().nullable() });

/** The schema of all tables, so that the database can be shared with other programs. */
export const schema = "golem_forge";

/** The statements a migration needs. */
interface Sql {
  query<Schema extends z.ZodType>(row: Schema, text: string, values?: readonly unknown[]): Promise<z.output<Schema>[]>;
  run(text: string, values?: readonly unknown[]): Promise<number>;
  script(text: string): Promise<void>;
}

/**
 * Applies the missing migrations in a transaction. If several replicas start together, one of them migrates and the
 * others wait. Throws a UserError, and changes nothing, if another program wrote the schema, or a release that this one cannot read.
 */
export async function migrate(sql: Sql, database: string): Promise<void> {
  const [encoding] = await sql.query(
    Name,
    "select pg_encoding_to_char(encoding) as name from pg_database where datname = current_database()",
  );
  if (encoding?.name !== "UTF8") {
    throw new UserError(
      `The database ${database} stores ${encoding?.name}, not UTF8. Create one with "create database … encoding 'UTF8' template template0".`,
    );
  }

  await sql.run("select pg_advisory_xact_lock(hashtext('golem_forge schema'))");
  const version = await schemaVersion(sql, database);
  assertReadableSchema(database, version, postgresMigrations.length);
  if (version < postgresMigrations.length) {
    await sql.script(`create schema if not exists ${schema}`);
    if (version === 0)
      await sql.script("create table schema_version (version integer not null); insert into schema_version values (0)");
    for (const step of postgresMigrations.slice(version)) await sql.script(step);
    await sql.run("update schema_version set version = $1", [postgresMigrations.length]);
  }
  await markIfRestored(sql);
}

/**
 * Notices a database that programs such as pg_restore have restored: there, the table has another id than the one that its comment
 * has kept from the original.
 */
async function markIfRestored(sql: Sql): Promise<void> {
  const [table] = await sql.query(
    Identity,
    `select concat(pg_database.oid, '/', pg_class.oid) as id, obj_description(pg_class.oid, 'pg_class') as known
      from pg_class, pg_database where pg_class.oid = 'schema_version'::regclass and datname = current_database()
        and pg_has_role(relowner, 'usage')`,
  );
  // Only the owner of a table may comment on it.
  if (!table || table.known === table.id) return;
  if (table.known !== null) await sql.script(restoredMarks(schema, Date.now()));
  await sql.script(`comment on table schema_version is '${table.id}'`);
}

async function schemaVersion(sql: Sql, database: string): Promise<number> {
  const tables = await sql.query(Name, "select tablename as name from pg_tables where schemaname = $1", [schema]);
  if (tables.length === 0) return 0;
  if (!tables.some(({ name }) => name === "schema_version")) {
    throw new UserError(
      `The schema ${schema} of the database ${database} belongs to another program. Set DATABASE_URL to another database.`,
    );
  }
  const [row] = await sql.query(Version, "select version from schema_version");
  return row?.version ?? 0;
}
