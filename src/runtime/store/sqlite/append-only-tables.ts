import { createHash } from "node:crypto";
import { z } from "zod";
import type { LoggedEvent } from "#domain/events.ts";
import { chainEntries, type LedgerDraft, type StoredLedgerEntry } from "#domain/ledger.ts";
import type { NewEvent } from "#runtime/store/store.ts";
import {
  ChangeColumns,
  EventColumns,
  LedgerColumns,
  readChange,
  readEvent,
  serializeRecord,
} from "#runtime/store/stored-rows.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** The append-only logs of all runs, and the inboxes: the events that have not been consumed. */
export class EventsTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  /** Appends the event and makes its run due. Does nothing if the dedupe key is known. Throws if the run does not exist. */
  append({ runId, event, dedupe }: NewEvent, at: number): void {
    if (dedupe !== undefined && this.#sql.exists("select 1 from events where dedupe = :dedupe", { dedupe })) return;

    const id = this.#sql.insert(
      "insert into events (run_id, at, dedupe, event) values (:runId, :at, :dedupe, :event)",
      {
        runId,
        at,
        dedupe: dedupe ?? null,
        event: serializeRecord(event),
      },
    );
    this.#sql.run("insert into inbox (run_id, event_id) values (:runId, :id)", { runId, id });
    const updated = this.#sql.run(
      "update runs set last_event = :id, updated_at = max(updated_at, :at) where id = :runId",
      { runId, id, at },
    );
    if (updated === 0) throw new Error(`There is no run ${runId}.`);
  }

  inbox(runId: string): LoggedEvent[] {
    return this.#sql
      .all(
        EventColumns,
        `select events.id, at, event from inbox join events on events.id = inbox.event_id
          where inbox.run_id = :runId order by inbox.event_id`,
        { runId },
      )
      .map((row) => readEvent(runId, row));
  }

  log(runId: string, after: number, limit: number | undefined): LoggedEvent[] {
    return this.#sql
      .all(
        EventColumns,
        "select id, at, event from events where run_id = :runId and id > :after order by id limit :limit",
        // SQLite reads -1 as no limit.
        { runId, after, limit: limit ?? -1 },
      )
      .map((row) => readEvent(runId, row));
  }

  removeLog(runId: string): void {
    this.#sql.run("delete from inbox where run_id = :runId", { runId });
    this.#sql.run("delete from events where run_id = :runId", { runId });
  }

  isInInbox(runId: string, eventId: number): boolean {
    return this.#sql.exists("select 1 from inbox where run_id = :runId and event_id = :eventId", { runId, eventId });
  }

  removeFromInbox(runId: string, eventId: number): void {
    this.#sql.run("delete from inbox where run_id = :runId and event_id = :eventId", { runId, eventId });
  }
}

/** The append-only ledger of approvals. Triggers refuse to change or delete an entry. */
export class LedgerTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  append(drafts: readonly LedgerDraft[]): void {
    if (drafts.length === 0) return;
    const last = this.#sql.get(
      LedgerColumns,
      "select number, hash, entry from ledger where number = (select max(number) from ledger)",
    );
    for (const { number, hash, entry } of chainEntries(drafts, last)) {
      this.#sql.run("insert into ledger (number, hash, entry) values (:number, :hash, :entry)", {
        number,
        hash,
        entry,
      });
    }
  }

  read(after: number, limit: number): StoredLedgerEntry[] {
    const sql = "select number, hash, entry from ledger where number > :after order by number limit :limit";
    return this.#sql.all(LedgerColumns, sql, { after, limit });
  }
}

const Id = z.object({ id: z.number() });
const ChangeSet = z.object({ id: z.number(), step: z.string() });

/** The hashes of contents that are stored twice: before their change, and with it. */
const hashes = new WeakMap<Uint8Array, Buffer>();

/** The changes that runs made to their sandboxes. Identical contents are stored once. */
export class ChangesTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  append(runId: string, { step, changes }: StepChanges): void {
    const set = this.#sql.insert("insert into change_sets (run_id, step) values (:runId, :step)", { runId, step });
    for (const { path, mode, content } of changes) {
      const blob = content === undefined ? null : this.addBlob(content);
      this.#sql.run("insert into changes (change_set, path, mode, blob) values (:set, :path, :mode, :blob)", {
        set,
        path,
        mode,
        blob,
      });
    }
    this.#sql.run("update runs set change_sets = change_sets + 1 where id = :runId", { runId });
  }

  /** Returns the steps of a run that changed something, oldest first. */
  setsOf(runId: string, upTo: number | undefined): z.infer<typeof ChangeSet>[] {
    // SQLite reads -1 as no limit.
    const bounds = { runId, limit: upTo ?? -1 };
    return this.#sql.all(
      ChangeSet,
      "select id, step from change_sets where run_id = :runId order by id limit :limit",
      bounds,
    );
  }

  /** Removes the changes of a run, and contents that no other run uses. */
  remove(runId: string): void {
    const ofRun = "change_set in (select id from change_sets where run_id = :runId)";
    const blobs = this.#sql.all(Id, `select distinct blob as id from changes where ${ofRun} and blob is not null`, {
      runId,
    });
    this.#sql.run(`delete from changes where ${ofRun}`, { runId });
    this.#sql.run("delete from change_sets where run_id = :runId", { runId });
    for (const { id } of blobs) {
      this.#sql.run("delete from blobs where id = :id and not exists (select 1 from changes where blob = :id)", { id });
    }
  }

  inSet(id: number): StepChanges["changes"] {
    const columns = this.#sql.all(
      ChangeColumns,
      `select path, mode, content from changes left join blobs on blobs.id = changes.blob
        where change_set = :id order by changes.id`,
      { id },
    );
    return columns.map(readChange);
  }

  addBlob(content: Uint8Array): number {
    const hash = hashes.get(content) ?? createHash("sha256").update(content).digest();
    hashes.set(content, hash);
    const known = this.#sql.get(Id, "select id from blobs where hash = :hash", { hash });
    return (
      known?.id ?? this.#sql.insert("insert into blobs (hash, content) values (:hash, :content)", { hash, content })
    );
  }
}
