import { link, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { reasonOf, UserError } from "#domain/errors.ts";
import { restoredMarks } from "#runtime/store/stored-rows.ts";
import { assertOwnDatabase, lockDatabase, openSqliteConnection } from "./open-database.ts";

/** Writes a complete, compact copy of a database to a new file, even while another process uses the database. */
export async function backUpDatabase(path: string, file: string): Promise<void> {
  const source = openReadOnly(path);
  try {
    // SQLite would create a file that all users of the machine can read.
    await (await open(file, "wx", 0o600)).close();
  } catch (error) {
    source.close();
    throw new UserError(`The backup ${file} cannot be created: ${reasonOf(error)}.`, { cause: error });
  }
  try {
    source.prepare("vacuum into ?").run(file);
    await syncToDisk(file);
  } catch (error) {
    await rm(file, { force: true });
    throw new UserError(`The backup ${file} could not be written: ${reasonOf(error)}.`, { cause: error });
  } finally {
    source.close();
  }
}

/**
 * Replaces a database with a backup. Returns the new name of the replaced database; undefined if there was none. Throws a
 * UserError, and changes nothing, while a process uses the database or if the backup is corrupt.
 */
export async function restoreDatabase(file: string, path: string): Promise<string | undefined> {
  const problem = checkDatabase(file);
  if (problem !== undefined) throw new UserError(`The backup ${file} is damaged: ${problem}.`);

  const lock = lockDatabase(path);
  const incoming = `${path}.incoming`;
  try {
    // An earlier process may have been killed while it wrote this.
    await rm(incoming, { force: true });
    // Also reads the backup's log, which exists if the backup is a copy of a database's files.
    await backUpDatabase(file, incoming);
    markRestored(incoming);
    await syncToDisk(incoming);
    const replaced = (await exists(path)) ? `${path}.replaced-${Date.now()}` : undefined;
    if (replaced !== undefined) {
      includeLog(path);
      await link(path, replaced);
    }
    // SQLite would apply the log of the replaced database to the restored one.
    for (const suffix of ["-wal", "-shm"]) {
      if (await exists(path + suffix)) await rename(path + suffix, `${replaced ?? incoming}${suffix}`);
    }
    await rename(incoming, path);
    await syncToDisk(dirname(path));
    return replaced;
  } finally {
    await rm(incoming, { force: true });
    lock.close();
  }
}

function markRestored(path: string): void {
  const database = new DatabaseSync(path);
  try {
    database.exec(`begin; ${restoredMarks("main", Date.now())}; commit`);
  } finally {
    database.close();
  }
}

/** Returns the problem with a database file; undefined if it is intact. */
export function checkDatabase(path: string): string | undefined {
  const database = openReadOnly(path);
  try {
    const problems = database.prepare("pragma integrity_check(5)").all();
    const orphans = database.prepare("pragma foreign_key_check").all();
    const found = problems.map((row) => String(row.integrity_check)).filter((text) => text !== "ok");
    const missing = orphans.length > 0 ? [`${orphans.length} rows refer to rows that do not exist`] : [];
    return [...found, ...missing].join("; ") || undefined;
  } catch (error) {
    return reasonOf(error);
  } finally {
    database.close();
  }
}

/** Returns the space of deleted data to the file system. Throws a UserError while a process uses the database. */
export async function compactDatabase(path: string): Promise<{ before: number; after: number }> {
  const sql = await openSqliteConnection(path);
  const { size: before } = await stat(path);
  try {
    sql.run("vacuum");
  } finally {
    sql.close();
  }
  return { before, after: (await stat(path)).size };
}

function openReadOnly(path: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
    assertOwnDatabase(database, path);
    return database;
  } catch (error) {
    database?.close();
    if (error instanceof UserError) throw error;
    throw new UserError(`The database ${path} cannot be read: ${reasonOf(error)}.`, { cause: error });
  }
}

/** Moves the contents of the write-ahead log into the database file. A corrupt database keeps its log. */
function includeLog(path: string): void {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path);
    database.exec("pragma wal_checkpoint(truncate)");
  } catch {
    // It is left unchanged.
  } finally {
    database?.close();
  }
}

async function syncToDisk(path: string): Promise<void> {
  const file = await open(path, "r");
  await file.sync();
  await file.close();
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
