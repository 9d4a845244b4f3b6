import pg from "pg";
import { UserError } from "#domain/errors.ts";

/**
 * A database as it may be named in a log: without user and password. Throws a UserError when the address cannot be read,
 * or a file it names.
 */
export function describeDatabase(url: string): string {
  try {
    const { host, port, database } = new pg.Client({ connectionString: url });
    return `${database ?? "of the user"} at ${host}:${port}`;
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    const reason = path ? `${path} cannot be read (${code})` : "it is no address of a PostgreSQL database";
    // Not the cause: it may quote the address, and with it the password.
    throw new UserError(`DATABASE_URL cannot be used: ${reason}.`);
  }
}
