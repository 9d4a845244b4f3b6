import type { Config } from "#config/config.ts";
import type { Dispatch } from "#runtime/dispatch.ts";
import type { Store } from "./store.ts";

export interface OpenedStore {
  store: Store;
  /** Set if several processes share the database. */
  dispatch?: Dispatch;
}

/**
 * Opens the configured store, and creates it if necessary. Throws a UserError if it cannot be opened. The PostgreSQL
 * client is loaded on demand.
 */
export async function openStore(
  database: Config["database"],
  { onError }: { onError: (error: unknown) => void },
): Promise<OpenedStore> {
  if (database.kind === "sqlite") {
    const { openSqliteStore } = await import("./sqlite/open-sqlite-store.ts");
    return { store: await openSqliteStore(database.path) };
  }
  const { openSharedStore } = await import("./postgres/open-shared-store.ts");
  return openSharedStore(database, { onError });
}
