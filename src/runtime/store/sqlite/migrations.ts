/** The steps of the schema, which `PRAGMA user_version` counts. Never edit a released step: add one at the end. */
export const sqliteMigrations: readonly string[] = [
  `
  create table deliveries (
    guid text not null,
    part text not null,
    result text,
    received_at real not null,
    primary key (guid, part)
  ) strict, without rowid;
  create index deliveries_by_age on deliveries (received_at);

  create table runs (
    id text primary key not null,
    root_id text not null,
    parent_id text,
    owner text not null collate nocase,
    repo text not null collate nocase,
    thread integer not null,
    requested_by text not null collate nocase,
    created_at real not null,
    updated_at real not null,
    status text not null,
    version integer not null default 0,
    change_sets integer not null default 0,
    last_event integer not null default 0,
    last_seen_event integer not null default 0,
    snapshot text not null
  ) strict;
  create index runs_of_thread on runs (owner, repo, thread) where parent_id is null;
  create index runs_of_repository on runs (owner, repo, created_at) where parent_id is null;
  create index runs_of_person on runs (requested_by, created_at) where parent_id is null;
  create index runs_by_age on runs (created_at) where parent_id is null;
  create index runs_of_parent on runs (parent_id) where parent_id is not null;
  create index runs_unseen on runs (id) where last_event > last_seen_event and status <> 'done';

  create table specs (
    run_id text primary key not null references runs (id),
    spec text not null
  ) strict;

  create table events (
    id integer primary key autoincrement,
    run_id text not null,
    at real not null,
    dedupe text,
    event text not null
  ) strict;
  create index events_of_run on events (run_id);
  create unique index events_once on events (dedupe) where dedupe is not null;

  create table inbox (
    run_id text not null,
    event_id integer not null references events (id),
    primary key (run_id, event_id)
  ) strict, without rowid;

  create table effects (
    id integer primary key,
    key text not null unique,
    run_id text not null references runs (id),
    queue text not null,
    kind text not null,
    input text not null,
    due_at real not null,
    attempts integer not null default 0,
    claimed integer not null default 0,
    repeat integer not null default 0,
    problem text
  ) strict;
  create index effects_of_queue on effects (run_id, queue);
  create index effects_due on effects (due_at);
  create index effects_later on effects (due_at) where due_at > 0 and claimed = 0;

  create table timers (
    run_id text not null references runs (id),
    timer text not null,
    due_at real not null,
    primary key (run_id, timer)
  ) strict, without rowid;
  create index timers_due on timers (due_at);

  create table approvals (
    number integer primary key,
    id text not null unique,
    run_id text not null references runs (id),
    root_id text not null,
    status text not null,
    expires_at real not null,
    approval text not null
  ) strict;
  create index approvals_of_root on approvals (root_id);
  create index approvals_pending on approvals (run_id) where status = 'pending';
  create index approvals_expiring on approvals (expires_at) where status = 'pending';

  create table posts (
    name text primary key not null,
    comment_id integer not null,
    updated_at real not null
  ) strict, without rowid;

  create table blobs (
    id integer primary key,
    hash blob not null unique,
    content blob not null
  ) strict;
  create table change_sets (
    id integer primary key,
    run_id text not null references runs (id),
    step text not null
  ) strict;
  create index change_sets_of_run on change_sets (run_id);
  create table changes (
    id integer primary key,
    change_set integer not null references change_sets (id),
    path text not null,
    mode text not null,
    blob integer references blobs (id)
  ) strict;
  create index changes_of_set on changes (change_set);
  `,
  `
  create table repositories (
    id integer primary key not null,
    installation_id integer not null,
    owner_id integer not null,
    owner text not null,
    repo text not null,
    since real not null
  ) strict;
  create index repositories_of_installation on repositories (installation_id);
  alter table runs add column repository_id integer;
  create index runs_of_location on runs (repository_id, thread) where parent_id is null;
  create index runs_of_location_by_age on runs (repository_id, created_at) where parent_id is null;
  create index runs_without_location on runs (owner, repo, created_at) where repository_id is null;
  `,
  `
  create table pending_deliveries (
    number integer primary key autoincrement,
    key text not null unique,
    queue text not null,
    content text not null,
    received_at real not null,
    due_at real not null default 0,
    attempts integer not null default 0
  ) strict;
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
    number integer primary key not null,
    hash text not null,
    entry text not null
  ) strict;
  create trigger ledger_is_never_updated before update on ledger begin select raise(abort, 'The ledger is append-only.'); end;
  create trigger ledger_is_never_deleted before delete on ledger begin select raise(abort, 'The ledger is append-only.'); end;
  `,
  // The costs of earlier runs count for the hour in which the run started, with those of its children and without tokens.
  `
  create table usage (
    hour integer not null,
    run_id text not null,
    root_id text not null,
    worker text not null,
    repository_id integer,
    installation_id integer not null,
    owner text not null,
    repo text not null,
    model_calls integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    cached_input_tokens integer not null,
    cost real not null,
    primary key (hour, run_id)
  ) strict, without rowid;
  insert into usage
    select cast(created_at / 3600000 as integer), id, root_id, coalesce(json_extract(spec, '$.worker.name'), ''),
        repository_id, coalesce(json_extract(spec, '$.origin.installationId'), 0), owner, repo,
        json_extract(snapshot, '$.context.steps'), 0, 0, 0, json_extract(snapshot, '$.context.cost')
      from runs join specs on specs.run_id = runs.id
      where parent_id is null and json_extract(snapshot, '$.context.steps') > 0;

  alter table effects add column requested_at real not null default 0;
  alter table runs add column state text;
  update runs set state = coalesce(json_extract(snapshot, '$.value.handlingCalls'), json_extract(snapshot, '$.value'))
    where status = 'waiting';
  create index runs_by_state on runs (coalesce(state, 'working')) where status in ('active', 'waiting');
  `,
  // Without the inbox's foreign key, which would make the removal of a log search all inboxes.
  `
  alter table runs add column log_removed_at real;
  create index runs_with_log on runs (updated_at) where parent_id is null and status = 'done' and log_removed_at is null;
  create index runs_of_root on runs (root_id) where parent_id is not null;
  create index changes_of_blob on changes (blob) where blob is not null;
  create table unconsumed (
    run_id text not null,
    event_id integer not null,
    primary key (run_id, event_id)
  ) strict, without rowid;
  insert into unconsumed select run_id, event_id from inbox;
  drop table inbox;
  alter table unconsumed rename to inbox;
  `,
  "alter table pending_deliveries add column failures integer not null default 0",
  "alter table posts add column shown text",
  // Runs with unseen events are found by their inboxes, which are almost empty.
  "drop index runs_unseen",
  // Only a start and the sweep every 30 seconds read all effects that are due, and each step of a run would change this index.
  "drop index effects_due",
  // Each step of a run removes an effect and adds another. That changes one page, and not one more for each of two indexes.
  `
  create table outbox (
    run_id text not null references runs (id),
    key text not null,
    number integer not null,
    queue text not null,
    kind text not null,
    due_at real not null,
    attempts integer not null default 0,
    claimed integer not null default 0,
    repeat integer not null default 0,
    problem text,
    requested_at real not null,
    input text not null,
    primary key (run_id, key)
  ) strict, without rowid;
  insert into outbox
    select run_id, key, id, queue, kind, due_at, attempts, claimed, repeat, problem, requested_at, input from effects;
  drop table effects;
  alter table outbox rename to effects;
  create index effects_later on effects (due_at) where due_at > 0 and claimed = 0;
  `,
];
