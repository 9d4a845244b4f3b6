import { DatabaseSync } from "node:sqlite";
import { UserError } from "#domain/errors.ts";

const sqliteBusy = 5;

/** Another process uses the database. */
export class DatabaseInUseError extends UserError {
  override readonly name = "DatabaseInUseError";
}

/**
 * Locks the database at this path for this process, until `close` is called or the process ends for any reason. Throws
 * a DatabaseInUseError if another process has the lock.
 */
export function lockDatabase(path: string): { close(): void } {
  // A separate file rather than `locking_mode = exclusive`, so that backups can read the database while it is in use.
  const lock = new DatabaseSync(`${path}.lock`);
  try {
    lock.exec("begin exclusive");
    return lock;
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw error;
    throw new DatabaseInUseError(
      `The database ${path} is in use by another Golem Forge process. Stop that one first, or set DATABASE_URL to another file.`,
      { cause: error },
    );
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === sqliteBusy;
}
