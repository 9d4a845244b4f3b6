import type { Client, Notification } from "pg";
import type { PostgresConnection } from "./postgres-connection.ts";

/** What is said on the channel: the id of a run that has news, or nothing when there may be something to take. */
export const channel = "golem_forge";

/** "GLMF": tells our advisory locks from those of other programs. */
export const lockClass = 0x474c4d46;

/**
 * This process among those that share the database: a session that holds a lock for as long as it lives, under a number
 * that is never given again. When the process dies the server lets go of the lock, and the others see it at once.
 */
export interface Replica {
  readonly id: number;
  /** The numbers of others that died and were not cleared away yet. Rejects when the session does not answer. */
  dead(): Promise<number[]>;
  /** Resolves when the session is gone, whoever ended it: somebody else may have everything this replica held. */
  readonly lost: Promise<void>;
  leave(): Promise<void>;
}

const answerMs = 5_000;

/** Joins under a new number, and hears what is said on the channel. */
export async function joinReplicas(connection: PostgresConnection, hear: (said: string) => void): Promise<Replica> {
  const client = await connection.connect();
  const { promise: lost, resolve: lose } = Promise.withResolvers<void>();
  client.on("error", () => lose());
  client.on("end", () => lose());
  client.on("notification", ({ payload = "" }: Notification) => hear(payload));
  try {
    // A host that is gone without a word is noticed by the server within some ten seconds.
    await client.query("set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3");
    const id = await enter(client);
    return { id, dead: () => findDead(client, id), lost, leave: () => client.end() };
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
}

async function enter(client: Client): Promise<number> {
  const { rows } = await client.query<{ id: string }>("select nextval('replica_ids') as id");
  const id = Number(rows[0]?.id);
  await client.query("select pg_advisory_lock($1, $2)", [lockClass, id]);
  await client.query(`listen ${channel}`);
  await client.query("insert into replicas (id) values ($1)", [id]);
  return id;
}

async function findDead(client: Client, id: number): Promise<number[]> {
  // The lock may be gone without our knowing: ended here, it is gone for sure.
  const late = setTimeout(() => void client.end(), answerMs);
  try {
    const { rows } = await client.query<{ id: string }>(
      "select id from replicas where id <> $1 and pg_try_advisory_xact_lock($2, id::integer)",
      [id, lockClass],
    );
    return rows.map((row) => Number(row.id));
  } finally {
    clearTimeout(late);
  }
}
