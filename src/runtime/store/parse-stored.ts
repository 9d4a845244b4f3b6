import type { z } from "zod";

/** Where a text was found, for the error that says it cannot be read. */
export interface Place {
  table: string;
  id: string | number;
}

/** Reads JSON back from the database. Throws an error that names table and id when it is not what the schema says. */
export function parseStored<Schema extends z.ZodType>(schema: Schema, text: string, place: Place): z.output<Schema> {
  const parsed = schema.safeParse(readJson(text, place));
  if (parsed.success) return parsed.data;

  const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "it"}: ${message}`);
  throw new Error(`Table ${place.table}, id ${place.id} does not hold what it should: ${problems.join("; ")}`, {
    cause: parsed.error,
  });
}

/** Reads JSON of any shape back; null is the undefined that JSON does not have. */
export function readJson(text: string | null, { table, id }: Place): unknown {
  if (text === null) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`Table ${table}, id ${id} does not hold JSON`, { cause: error });
  }
}
