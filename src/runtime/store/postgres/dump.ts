import { spawn } from "node:child_process";
import { open, rm } from "node:fs/promises";
import pg from "pg";
import { messageOf, UserError } from "#domain/errors.ts";
import { restoredMarks } from "#runtime/store/stored-rows.ts";
import { schema } from "./migrations.ts";
import { describeDatabase } from "./postgres-connection.ts";

/** Writes all data to a file with pg_dump, as a snapshot, while replicas are running. */
export async function dumpDatabase(url: string, file: string): Promise<void> {
  try {
    // pg_dump would create a file that all users of the machine can read.
    await (await open(file, "wx", 0o600)).close();
  } catch (error) {
    throw new UserError(`The backup ${file} cannot be created: ${messageOf(error)}.`, { cause: error });
  }
  try {
    await runProgram("pg_dump", url, ["--format=custom", "--no-owner", `--schema=${schema}`, `--file=${file}`]);
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  }
}

/** Restores a file of pg_dump, completely or not at all. Throws a UserError if the database already has data of Golem Forge. */
export async function restoreDump(file: string, url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    const { rowCount } = await client.query("select 1 from pg_namespace where nspname = $1", [schema]);
    if (rowCount !== 0) {
      throw new UserError(
        `The database ${describeDatabase(url)} already holds data of Golem Forge. Create an empty database, and name it with --database.`,
      );
    }
    await runProgram("pg_restore", url, ["--no-owner", "--single-transaction", "--exit-on-error", file]);
    await client.query(restoredMarks(schema, Date.now()));
  } finally {
    await client.end();
  }
}

/** Runs a PostgreSQL program. The password is passed in its environment, where other users of the machine cannot see it. */
async function runProgram(name: "pg_dump" | "pg_restore", url: string, args: readonly string[]): Promise<void> {
  const { password } = new pg.Client({ connectionString: url });
  const address = new URL(url);
  address.password = "";
  address.searchParams.delete("password");
  const child = spawn(name, [`--dbname=${address.href}`, ...args], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, ...(password ? { PGPASSWORD: password } : {}) },
  });
  let printed = "";
  child.stderr.on("data", (chunk) => {
    printed = (printed + String(chunk)).slice(-2_000);
  });
  const { promise: ended, resolve, reject } = Promise.withResolvers<number | null>();
  child.on("error", reject);
  child.on("close", resolve);
  const code = await ended.catch(() => {
    throw new UserError(
      `${name} was not found. Install PostgreSQL's client programs, or run this where they are: ${name} --dbname=DATABASE_URL ${args.join(" ")}`,
    );
  });
  if (code !== 0) throw new UserError(`${name} failed: ${printed.trim()}`);
}
