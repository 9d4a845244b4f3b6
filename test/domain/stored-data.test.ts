import { expect, test } from "vitest";
import { z } from "zod";
import { parseVersioned, UnreadableDataError } from "#domain/stored-data.ts";

const schema = z.object({
  version: z.number().optional(),
  run: z.object({ id: z.string() }),
  n: z.number().default(1),
});
const read = (data: unknown) => parseVersioned(schema, data, { version: 2, name: "The run" });

test.each([1, 2, undefined])("data of format %s is read, with defaults", (version) => {
  expect(read({ version, run: { id: "r1" } })).toEqual({ version, run: { id: "r1" }, n: 1 });
});

test.each([
  [
    { version: 3, run: 1 },
    "The run was stored by a newer release of Golem Forge (format 3; this release reads up to 2).",
  ],
  [{ version: "3", run: { id: "r1" } }, "The run cannot be read: version:"],
  [{ run: { id: 1 }, n: "x" }, "The run cannot be read: run.id: Invalid input: expected string, received number; n: "],
  [null, "The run cannot be read: value: "],
  ["text", "The run cannot be read: value: "],
])("%j is refused with the reason", (data, message) => {
  expect(() => read(data)).toThrow(UnreadableDataError);
  expect(() => read(data)).toThrow(message);
});
