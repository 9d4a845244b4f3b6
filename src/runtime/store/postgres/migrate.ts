import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { postgresMigrations } from "./migrations.ts";

const Name = z.object({ name: z.string() });
const Version = z.object({ version: z.number() });

/** The schema of all tables, so that the database can be shared with other programs. */
export const schema = "golem_forge";

/** The statements a migration needs. */
interface Sql {
  query<Schema extends z.ZodType>(row: Schema, text: string, values?: readonly unknown[]): Promise<z.output<Schema>[]>;
  run(text: string, values?: readonly unknown[]): Promise<number>;
  script(text: string): Promise<void>;
}

/**
 * Applies the missing migrations in a transaction. If several replicas start together, one of them migrates and the
 * others wait. Throws a UserError, and changes nothing, if a newer release or another program wrote the schema.
 */
export async function migrate(sql: Sql, database: string): Promise<void> {
  const [encoding] = await sql.query(
    Name,
    "select pg_encoding_to_char(encoding) as name from pg_database where datname = current_database()",
  );
  if (encoding?.name !== "UTF8") {
    throw new UserError(
      `The database ${database} stores ${encoding?.name}, not UTF8. Create one with "create database … encoding 'UTF8' template template0".`,
    );
  }

  await sql.run("select pg_advisory_xact_lock(hashtext('golem_forge schema'))");
  const version = await schemaVersion(sql, database);
  if (version > postgresMigrations.length) {
    throw new UserError(
      `The database ${database} was written by a newer version of Golem Forge (schema ${version}; this one supports up to ${postgresMigrations.length}). Install that version again, or restore an older backup.`,
    );
  }
  if (version === postgresMigrations.length) return;

  await sql.script(`create schema if not exists ${schema}`);
  if (version === 0)
    await sql.script("create table schema_version (version integer not null); insert into schema_version values (0)");
  for (const step of postgresMigrations.slice(version)) await sql.script(step);
  await sql.run("update schema_version set version = $1", [postgresMigrations.length]);
}

async function schemaVersion(sql: Sql, database: string): Promise<number> {
  const tables = await sql.query(Name, "select tablename as name from pg_tables where schemaname = $1", [schema]);
  if (tables.length === 0) return 0;
  if (!tables.some(({ name }) => name === "schema_version")) {
    throw new UserError(
      `The schema ${schema} of the database ${database} belongs to another program. Set DATABASE_URL to another database.`,
    );
  }
  const [row] = await sql.query(Version, "select version from schema_version");
  return row?.version ?? 0;
}
