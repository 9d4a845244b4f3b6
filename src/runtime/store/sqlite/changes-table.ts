import { createHash } from "node:crypto";
import { z } from "zod";
import { ChangeColumns, readChange } from "#runtime/store/stored-rows.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";
import { Table } from "./sqlite-connection.ts";

const Id = z.object({ id: z.number() });
const Count = z.object({ count: z.number() });
const ChangeSet = z.object({ id: z.number(), step: z.string() });

/** The hashes of contents that are stored twice: before their change, and with it. */
const hashes = new WeakMap<Uint8Array, Buffer>();

/** The changes that runs made to their sandboxes. Identical contents are stored once. */
export class ChangesTable extends Table {
  append(runId: string, { step, changes }: StepChanges): void {
    const set = this.sql.insert("insert into change_sets (run_id, step) values (:runId, :step)", { runId, step });
    for (const { path, mode, content } of changes) {
      const blob = content === undefined ? null : this.addBlob(content);
      this.sql.run("insert into changes (change_set, path, mode, blob) values (:set, :path, :mode, :blob)", {
        set,
        path,
        mode,
        blob,
      });
    }
    this.sql.run("update runs set change_sets = change_sets + 1 where id = :runId", { runId });
  }

  countSets(runId: string): number {
    return this.sql.get(Count, "select change_sets as count from runs where id = :runId", { runId })?.count ?? 0;
  }

  /** Returns the steps of a run that changed something, oldest first. */
  setsOf(runId: string, upTo: number | undefined): z.infer<typeof ChangeSet>[] {
    // SQLite reads -1 as no limit.
    const bounds = { runId, limit: upTo ?? -1 };
    return this.sql.all(
      ChangeSet,
      "select id, step from change_sets where run_id = :runId order by id limit :limit",
      bounds,
    );
  }

  /** Removes the changes of a run, and contents that no other run uses. */
  remove(runId: string): void {
    const ofRun = "change_set in (select id from change_sets where run_id = :runId)";
    const blobs = this.sql.all(Id, `select distinct blob as id from changes where ${ofRun} and blob is not null`, {
      runId,
    });
    this.sql.run(`delete from changes where ${ofRun}`, { runId });
    this.sql.run("delete from change_sets where run_id = :runId", { runId });
    for (const { id } of blobs) {
      this.sql.run("delete from blobs where id = :id and not exists (select 1 from changes where blob = :id)", { id });
    }
  }

  inSet(id: number): StepChanges["changes"] {
    const columns = this.sql.all(
      ChangeColumns,
      `select path, mode, content from changes left join blobs on blobs.id = changes.blob
        where change_set = :id order by changes.id`,
      { id },
    );
    return columns.map(readChange);
  }

  addBlob(content: Uint8Array): number {
    const hash = hashes.getOrInsertComputed(content, () => createHash("sha256").update(content).digest());
    const known = this.sql.get(Id, "select id from blobs where hash = :hash", { hash });
    return (
      known?.id ?? this.sql.insert("insert into blobs (hash, content) values (:hash, :content)", { hash, content })
    );
  }
}
