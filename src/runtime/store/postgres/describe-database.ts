import pg from "pg";

/** A database as it may be named in a log: without user and password. */
export function describeDatabase(url: string): string {
  const { host, port, database } = new pg.Client({ connectionString: url });
  return `${database ?? "of the user"} at ${host}:${port}`;
}
