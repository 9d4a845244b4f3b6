import { DatabaseSync } from "node:sqlite";
import { UserError } from "#domain/errors.ts";

const sqliteBusy = 5;

/** Another process uses the database. */
export class DatabaseInUseError extends UserError {
  override readonly name = "DatabaseInUseError";
}

/**
 * Keeps every other process off the database at this path, until `close` or until this process ends, however it ends.
 * Throws a DatabaseInUseError when another process has it.
 */
export function lockDatabase(path: string): { close(): void } {
  // A file of its own rather than `locking_mode = exclusive`, so that backups can read the database while it is in use.
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
