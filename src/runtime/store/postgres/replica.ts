import type { Client, Notification } from "pg";
import { z } from "zod";
import type { PostgresConnection } from "./postgres-connection.ts";

/** The notification channel. The payload is the id of a run that was woken, or empty if the queue may have a job. */
export const channel = "golem_forge";

/** "GLMF": separates our advisory locks from those of other programs. */
export const lockClass = 0x474c4d46;

/** The driver returns bigint columns of plain queries as text. */
const Ids = z.array(z.object({ id: z.coerce.number() }));

/**
 * This process as one of the replicas that share the database. Its session holds a lock on a number that is never
 * reused. When the process dies, the server releases the lock and the other replicas see it immediately.
 */
export interface Replica {
  readonly id: number;
  /** Returns the ids of dead replicas that have not been removed. Rejects if the session does not respond. */
  findDead(): Promise<number[]>;
  /** Resolves when the session has ended. From then on, other replicas may take over its runs. */
  readonly lost: Promise<void>;
  leave(): Promise<void>;
}

const timeoutMs = 5_000;

/** Joins under a new number, and listens to the channel. */
export async function joinReplicas(
  connection: PostgresConnection,
  onNotification: (payload: string) => void,
): Promise<Replica> {
  const client = await connection.connect();
  const { promise: lost, resolve: lose } = Promise.withResolvers<void>();
  client.on("error", () => lose());
  client.on("end", () => lose());
  client.on("notification", ({ payload = "" }: Notification) => onNotification(payload));
  try {
    // The server notices within about 10 s if a host is gone without having closed the connection.
    await client.query("set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3");
    const id = await register(client);
    return { id, findDead: () => findDead(client, id), lost, leave: () => client.end() };
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
}

async function register(client: Client): Promise<number> {
  const { rows } = await client.query("select nextval('replica_ids') as id");
  const id = Ids.parse(rows)[0]?.id ?? 0;
  await client.query("select pg_advisory_lock($1, $2)", [lockClass, id]);
  await client.query(`listen ${channel}`);
  await client.query("insert into replicas (id) values ($1)", [id]);
  return id;
}

async function findDead(client: Client, id: number): Promise<number[]> {
  // Without a response, it is unknown if the lock is lost. Ending the session makes sure that it is.
  const timeout = setTimeout(() => void client.end(), timeoutMs);
  try {
    const { rows } = await client.query(
      "select id from replicas where id <> $1 and pg_try_advisory_xact_lock($2, id::integer)",
      [id, lockClass],
    );
    return Ids.parse(rows).map((row) => row.id);
  } finally {
    clearTimeout(timeout);
  }
}
