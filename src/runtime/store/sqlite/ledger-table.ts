import { chainEntries, type LedgerDraft, type StoredLedgerEntry } from "#domain/ledger.ts";
import { LedgerColumns } from "#runtime/store/stored-rows.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

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
