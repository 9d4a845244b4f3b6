import type { z } from "zod";

/** Stored data that this release cannot read. The run it belongs to is parked, with the message as the reason. */
export class UnreadableDataError extends Error {
  override readonly name = "UnreadableDataError";
}

/**
 * Parses stored data that carries a format version in `version`. `name` starts the error messages: "The state of the run".
 * Throws UnreadableDataError for data of a newer release and for data that does not match the schema.
 */
export function parseVersioned<Schema extends z.ZodType>(
  schema: Schema,
  data: unknown,
  { version, name }: { version: number; name: string },
): z.output<Schema> {
  const stored = storedVersion(data);
  if (stored !== undefined && stored > version) {
    throw new UnreadableDataError(
      `${name} was stored by a newer release of Golem Forge (format ${stored}; this release reads up to ${version}).`,
    );
  }
  const parsed = schema.safeParse(data);
  if (parsed.success) return parsed.data;

  const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "value"}: ${message}`);
  throw new UnreadableDataError(`${name} cannot be read: ${problems.join("; ")}.`, { cause: parsed.error });
}

function storedVersion(data: unknown): number | undefined {
  if (typeof data !== "object" || data === null || !("version" in data)) return undefined;
  return typeof data.version === "number" ? data.version : undefined;
}
