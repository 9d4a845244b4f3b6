import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseEnv } from "node:util";
import { readPostgresUrl } from "#config/read-postgres-url.ts";
import { UserError } from "#domain/errors.ts";
import { emptyLedger, type LedgerEntry, type LedgerHead, verifyEntry } from "#domain/ledger.ts";
import { openSqliteStoreReadOnly } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import type { CommandContext, Words } from "./command-context.ts";

/** The database of a server, as reached from this machine. */
export type ServerDatabase = { kind: "sqlite"; path: string } | { kind: "postgres"; url: string };

const defaultDatabase = "file:./data/golem-forge.db";
const pageSize = 500;

/** Resolves to the database given with `--database`, or else with DATABASE_URL in the environment or in `.env`. */
export async function chosenDatabase(options: Words["options"], context: CommandContext): Promise<ServerDatabase> {
  const given = options.get("database")?.at(-1);
  return databaseAt(typeof given === "string" ? given : await configuredUrl(context), context);
}

/** Parses the address of a database. Throws a UserError for an invalid address. */
export function databaseAt(url: string, { cwd }: CommandContext): ServerDatabase {
  if (readPostgresUrl(url)) return { kind: "postgres", url };
  if (/^postgres(ql)?:/i.test(url)) {
    throw new UserError(
      "This is not the address of a PostgreSQL database: postgres://user:password@host:5432/database, with the password percent-encoded.",
    );
  }
  return { kind: "sqlite", path: resolve(cwd, url.replace(/^(file|sqlite):(\/\/)?/, "")) };
}

async function configuredUrl({ env, cwd }: CommandContext): Promise<string> {
  const file = join(cwd, ".env");
  const fromFile = existsSync(file) ? parseEnv(await readFile(file, "utf8")) : {};
  return env.DATABASE_URL || fromFile.DATABASE_URL || defaultDatabase;
}

/** Throws a UserError if there is no such file. */
export function requireFile(path: string): void {
  if (!existsSync(path)) throw new UserError(`There is no database ${path}. Name it with --database.`);
}

/** Opens the store for reading, even while the server uses it. */
export async function openServerStore(database: ServerDatabase): Promise<Store> {
  if (database.kind === "postgres") {
    const { openPostgresConnection } = await import("#runtime/store/postgres/postgres-connection.ts");
    const { openPostgresStore } = await import("#runtime/store/postgres/open-postgres-store.ts");
    return openPostgresStore(await openPostgresConnection(database.url));
  }
  requireFile(database.path);
  return openSqliteStoreReadOnly(database.path);
}

/** Reads the ledger up to the first invalid entry. */
export async function readVerified(
  store: Pick<Store, "readLedger">,
  onEntry: (entry: LedgerEntry) => void,
): Promise<{ head: LedgerHead; problem?: string }> {
  let head = emptyLedger;
  for (;;) {
    const page = await store.readLedger(head.number, pageSize);
    for (const stored of page) {
      const entry = verifyEntry(head, stored);
      if (typeof entry === "string") return { head, problem: entry };
      onEntry(entry);
      head = stored;
    }
    if (page.length < pageSize) return { head };
  }
}
