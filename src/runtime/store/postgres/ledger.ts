import { chainEntries, type LedgerDraft, type StoredLedgerEntry } from "#domain/ledger.ts";
import { LedgerColumns } from "#runtime/store/stored-rows.ts";
import type { Sql } from "./postgres-connection.ts";

/**
 * Appends to the ledger. Its lock is held until the transaction ends, so this must come last in a transaction: the
 * holder of the lock then waits for no other lock.
 */
export async function appendLedger(sql: Sql, drafts: readonly LedgerDraft[]): Promise<void> {
  if (drafts.length === 0) return;
  await sql.run("select pg_advisory_xact_lock(hashtext('golem_forge ledger'))");
  const [last] = await sql.query(LedgerColumns, "select number, hash, entry from ledger order by number desc limit 1");
  const entries = chainEntries(drafts, last);
  await sql.run("insert into ledger (number, hash, entry) select * from unnest($1::bigint[], $2::text[], $3::text[])", [
    entries.map(({ number }) => number),
    entries.map(({ hash }) => hash),
    entries.map(({ entry }) => entry),
  ]);
}

/** Returns the entries after this number, in order. */
export function readLedger(
  sql: Pick<Sql, "query">,
  { after, limit }: { after: number; limit: number },
): Promise<StoredLedgerEntry[]> {
  const text = "select number, hash, entry from ledger where number > $1 order by number limit $2";
  return sql.query(LedgerColumns, text, [after, limit]);
}
