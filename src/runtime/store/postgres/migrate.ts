import { UserError } from "#domain/errors.ts";
import { migrations } from "./migrations.ts";

/** Where everything lives, so that the database may be shared with other programs. */
export const schema = "golem_forge";

/** The statements a migration needs. */
interface Sql {
  query<Row>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  script(text: string): Promise<void>;
}

/**
 * Brings the schema up to date, in a transaction of its own: of many replicas that start together one does it and the others
 * wait. Throws a UserError, and changes nothing, when the schema is newer than this program or somebody else's.
 */
export async function migrate(sql: Sql, database: string): Promise<void> {
  const [encoding] = await sql.query<{ name: string }>(
    "select pg_encoding_to_char(encoding) as name from pg_database where datname = current_database()",
  );
  if (encoding?.name !== "UTF8") {
    throw new UserError(
      `The database ${database} stores ${encoding?.name}, not UTF8. Create one with "create database … encoding 'UTF8' template template0".`,
    );
  }

  await sql.query("select pg_advisory_xact_lock(hashtext('golem_forge schema'))");
  const version = await schemaVersion(sql, database);
  if (version > migrations.length) {
    throw new UserError(
      `The database ${database} was written by a newer version of Golem Forge (schema ${version}, this one knows ${migrations.length}). Install that version again, or restore a backup from before.`,
    );
  }
  if (version === migrations.length) return;

  await sql.script(`create schema if not exists ${schema}`);
  if (version === 0)
    await sql.script("create table schema_version (version integer not null); insert into schema_version values (0)");
  for (const step of migrations.slice(version)) await sql.script(step);
  await sql.query("update schema_version set version = $1", [migrations.length]);
}

async function schemaVersion(sql: Sql, database: string): Promise<number> {
  const tables = await sql.query<{ name: string }>("select tablename as name from pg_tables where schemaname = $1", [
    schema,
  ]);
  if (tables.length === 0) return 0;
  if (!tables.some(({ name }) => name === "schema_version")) {
    throw new UserError(
      `The schema ${schema} of the database ${database} belongs to another program. Set DATABASE_URL to another database.`,
    );
  }
  const [row] = await sql.query<{ version: number }>("select version from schema_version");
  return row?.version ?? 0;
}
