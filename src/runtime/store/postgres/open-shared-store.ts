import type { Dispatch } from "#runtime/dispatch.ts";
import type { Store } from "#runtime/store/store.ts";
import { openJobQueue } from "./job-queue.ts";
import { openPostgresStore } from "./open-postgres-store.ts";
import { openPostgresConnection } from "./postgres-connection.ts";
import { PostgresDispatch } from "./postgres-dispatch.ts";

export interface SharedDatabase {
  url: string;
  /** The maximum number of active runs per repository, over all replicas. Default: no limit. */
  runsPerRepository?: number | undefined;
}

/**
 * Opens the store in a PostgreSQL database, and the dispatch that divides its runs among replicas. Detach the dispatch
 * before closing the store.
 */
export async function openSharedStore(
  { url, runsPerRepository }: SharedDatabase,
  { onError }: { onError: (error: unknown) => void },
): Promise<{ store: Store; dispatch: Dispatch }> {
  const connection = await openPostgresConnection(url);
  try {
    const queue = await openJobQueue(connection, { runsPerRepository, onError });
    const dispatch = new PostgresDispatch({ connection, queue, onError });
    const store = openPostgresStore(connection, () => dispatch.holder);
    const close = async () => {
      await queue.close();
      await store.close();
    };
    return { store: { ...store, close }, dispatch };
  } catch (error) {
    await connection.close();
    throw error;
  }
}
