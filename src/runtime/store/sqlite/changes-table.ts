import { createHash } from "node:crypto";
import type { StepChanges, StoredChange } from "#sandbox/sandbox.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** What runs changed in their sandboxes; equal contents are stored once. */
export interface ChangesTable {
  append(runId: string, changes: StepChanges): void;
  of(runId: string, upTo: number | undefined): StepChanges[];
}

interface ChangeRow {
  path: string;
  mode: StoredChange["mode"];
  content: Uint8Array | null;
}

export function changesTable(sql: SqliteConnection): ChangesTable {
  function keepBlob(content: Uint8Array): number {
    const hash = createHash("sha256").update(content).digest();
    const known = sql.get<{ id: number }>("select id from blobs where hash = :hash", { hash });
    return known?.id ?? sql.insert("insert into blobs (hash, content) values (:hash, :content)", { hash, content });
  }

  return {
    append: (runId, { step, changes }) => {
      const set = sql.insert("insert into change_sets (run_id, step) values (:runId, :step)", { runId, step });
      for (const { path, mode, content } of changes) {
        const blob = content === undefined ? null : keepBlob(content);
        sql.run("insert into changes (change_set, path, mode, blob) values (:set, :path, :mode, :blob)", {
          set,
          path,
          mode,
          blob,
        });
      }
      sql.run("update runs set change_sets = change_sets + 1 where id = :runId", { runId });
    },
    of: (runId, upTo) =>
      sql
        .all<{ id: number; step: string }>(
          "select id, step from change_sets where run_id = :runId order by id limit :limit",
          // SQLite reads -1 as no limit.
          { runId, limit: upTo ?? -1 },
        )
        .map(({ id, step }) => ({
          step,
          changes: sql
            .all<ChangeRow>(
              `select path, mode, content from changes left join blobs on blobs.id = changes.blob
                where change_set = :id order by changes.id`,
              { id },
            )
            .map(({ path, mode, content }) => ({ path, mode, content: content ?? undefined })),
        })),
  };
}
