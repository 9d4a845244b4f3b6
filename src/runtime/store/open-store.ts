import type { Config } from "#config/config.ts";
import type { Dispatch } from "#runtime/dispatch.ts";
import type { Store } from "./store.ts";

export interface OpenedStore {
  store: Store;
  /** Where processes share the database: who drives which run. */
  dispatch?: Dispatch;
}

/**
 * Opens the store that the configuration names, made when there is none. Throws a UserError when it cannot be opened.
 * What PostgreSQL takes is loaded only where it is used.
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
