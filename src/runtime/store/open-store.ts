import type { Config } from "#config/config.ts";
import { type Dispatch, localDispatch } from "#runtime/scheduler/dispatch.ts";
import type { Store } from "./store.ts";

export interface OpenedStore {
  store: Store;
  /** Set if several processes share the database, or if active runs per repository are limited. */
  dispatch?: Dispatch;
}

/** Opens or creates the configured store, or throws a UserError. The PostgreSQL client is loaded on demand. */
export async function openStore(
  database: Config["database"],
  { onError }: { onError: (error: unknown) => void },
): Promise<OpenedStore> {
  if (database.kind === "sqlite") {
    const { openSqliteStore } = await import("./sqlite/open-sqlite-store.ts");
    const { path, runsPerRepository } = database;
    const store = await openSqliteStore(path);
    if (runsPerRepository === undefined) return { store };
    return { store, dispatch: localDispatch({ store, runsPerRepository, onError }) };
  }
  const { openSharedStore } = await import("./postgres/open-postgres-store.ts");
  return openSharedStore(database, { onError });
}
