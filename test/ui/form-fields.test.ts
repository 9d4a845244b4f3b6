import { jsonSchema } from "ai";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  argumentsFromOptions,
  deriveFieldsFromSchema,
  extractManualToolInfo,
  getManualToolInfos,
  isZodObjectSchema,
  type NamedTool,
  parseFieldValue,
  UserError,
} from "#compat/index.ts";

const pushSchema = z.object({
  branch: z.string().describe("Target branch"),
  remote: z.enum(["origin", "upstream"]).default("origin"),
  force: z.boolean().default(false).describe("Force push"),
});

describe("deriveFieldsFromSchema", () => {
  test("the form of git_push is derived", () => {
    expect(deriveFieldsFromSchema(pushSchema)).toEqual([
      { name: "branch", description: "Target branch", type: "text", required: true },
      {
        name: "remote",
        description: "",
        type: "select",
        required: false,
        options: ["origin", "upstream"],
        default: "origin",
      },
      { name: "force", description: "Force push", type: "boolean", required: false, default: false },
    ]);
  });

  test.each<[string, z.ZodType, Record<string, unknown>]>([
    ["a string", z.string(), { type: "text", required: true }],
    ["a number", z.number(), { type: "number", required: true }],
    ["an integer with limits", z.number().int().min(1), { type: "number", required: true }],
    ["an optional number", z.number().optional(), { type: "number", required: false }],
    ["a boolean", z.boolean(), { type: "boolean", required: true }],
    ["an enum", z.enum(["a", "b"]), { type: "select", options: ["a", "b"] }],
    ["a TypeScript enum", z.enum({ Low: 1, High: 2 }), { type: "select", options: ["1", "2"] }],
    ["one literal", z.literal("only"), { type: "select", options: ["only"] }],
    ["a literal of several", z.literal(["a", "b"]), { type: "select", options: ["a", "b"] }],
    ["a union of literals", z.union([z.literal("s"), z.literal("m")]), { type: "select", options: ["s", "m"] }],
    ["a union of literal numbers", z.union([z.literal(1), z.literal(2)]), { type: "select", options: ["1", "2"] }],
    ["a union of types", z.union([z.string(), z.number()]), { type: "text" }],
    ["a literal number", z.literal(7), { type: "number" }],
    ["a literal boolean", z.literal(true), { type: "boolean" }],
    ["a list", z.array(z.string()), { type: "text", required: true }],
    ["an object", z.object({ a: z.string() }), { type: "text", required: true }],
    ["a nullable number", z.number().nullable(), { type: "number", required: true }],
    ["a nullish enum", z.enum(["a"]).nullish(), { type: "select", options: ["a"], required: false }],
    ["a default under an optional", z.number().default(3).optional(), { type: "number", required: false, default: 3 }],
    ["a computed default", z.string().default(() => "now"), { type: "text", required: false, default: "now" }],
    ["a prefault", z.string().prefault("x"), { type: "text", required: false, default: "x" }],
    ["a transform", z.number().transform(String), { type: "number", required: true }],
    ["a pipe", z.string().pipe(z.string().min(1)), { type: "text", required: true }],
    ["a refinement", z.boolean().refine((value) => value), { type: "boolean", required: true }],
    ["preprocessing", z.preprocess(Number, z.number()), { type: "number", required: true }],
    ["coercion", z.coerce.number(), { type: "number", required: true }],
    ["a catch", z.number().catch(1), { type: "number", required: false }],
    ["a brand that is read-only", z.string().brand("id").readonly(), { type: "text", required: true }],
    ["something lazy", z.lazy(() => z.boolean()), { type: "boolean", required: true }],
    ["a date", z.date().optional(), { type: "text", required: false }],
    ["a schema with an id", z.number().meta({ id: "count-of-things" }), { type: "number", required: true }],
  ])("a field is derived from %s", (_, schema, expected) => {
    expect(deriveFieldsFromSchema(z.object({ field: schema }))).toEqual([
      expect.objectContaining({ name: "field", ...expected }),
    ]);
  });

  test("the description of a wrapped schema is kept", () => {
    const schema = z.object({ a: z.string().describe("inner").optional(), b: z.string().optional().describe("outer") });
    expect(deriveFieldsFromSchema(schema).map(({ description }) => description)).toEqual(["inner", "outer"]);
  });

  test.each([
    ["an optional object", z.object({ a: z.string() }).optional()],
    ["a transformed object", z.object({ a: z.string() }).transform((value) => value)],
    ["a preprocessed object", z.preprocess((value) => value, z.object({ a: z.string() }))],
    ["JSON Schema", jsonSchema({ type: "object", properties: { a: { type: "string" } }, required: ["a"] })],
  ])("fields are derived from %s", (_, schema) => {
    expect(deriveFieldsFromSchema(schema)).toEqual([{ name: "a", description: "", type: "text", required: true }]);
  });

  test.each([
    ["a string", z.string()],
    ["a list", z.array(z.string())],
    ["no schema", {}],
    ["null", null],
    ["a number", 5],
  ])("no fields are derived from %s", (_, schema) => {
    expect(deriveFieldsFromSchema(schema)).toEqual([]);
  });

  test("a field is derived for each property, with whether it is optional", () => {
    const leaf = fc.constantFrom<z.ZodType>(
      z.string(),
      z.number(),
      z.boolean(),
      z.enum(["a"]),
      z.array(z.string()),
      z.date(),
    );
    const wrap = fc.constantFrom<(schema: z.ZodType) => z.ZodType>(
      (schema) => schema,
      (schema) => schema.optional(),
      (schema) => schema.nullable(),
      (schema) => schema.nullish(),
      (schema) => schema.describe("words"),
    );
    const field = fc.tuple(leaf, fc.array(wrap, { maxLength: 3 }));
    fc.assert(
      fc.property(fc.dictionary(fc.string({ minLength: 1 }), field), (members) => {
        const shape = Object.fromEntries(
          Object.entries(members).map(([name, [schema, wraps]]) => [
            name,
            wraps.reduce((inner, one) => one(inner), schema),
          ]),
        );
        const fields = deriveFieldsFromSchema(z.object(shape));

        expect(fields.map(({ name }) => name)).toEqual(Object.keys(shape));
        for (const { name, required } of fields) expect(required).toBe(!shape[name]?.safeParse(undefined).success);
      }),
      { numRuns: 50 },
    );
  });
});

describe("argumentsFromOptions", () => {
  const schema = z.object({
    branch: z.string(),
    remote: z.enum(["origin", "upstream"]).default("origin"),
    force: z.boolean().default(false),
    dry_run: z.boolean().optional(),
    labels: z.array(z.string()).optional(),
    level: z.union([z.literal(1), z.literal(2)]).optional(),
    retries: z.number().int().optional(),
  });

  test.each<[Record<string, string | boolean>, Record<string, unknown>]>([
    [{ branch: "main" }, { branch: "main", remote: "origin", force: false }],
    [{ branch: "5" }, { branch: "5" }],
    [
      { b: "main", f: true },
      { branch: "main", force: true },
    ],
    [{ branch: "x", force: "yes" }, { force: true }],
    [{ branch: "x", "no-force": true }, { force: false }],
    [{ branch: "x", "dry-run": true }, { dry_run: true }],
    [{ branch: "x", dryRun: "off" }, { dry_run: false }],
    [{ branch: "x", remote: "UPSTREAM" }, { remote: "upstream" }],
    [{ branch: "x", labels: "bug, help" }, { labels: ["bug", "help"] }],
    [{ branch: "x", labels: '["a,b"]' }, { labels: ["a,b"] }],
    [{ branch: "x", level: "2" }, { level: 2 }],
    [{ branch: "x", retries: "-5" }, { retries: -5 }],
    [{ branch: "x", i: true }, { branch: "x" }],
  ])("converts %j", async (options, expected) => {
    expect(await argumentsFromOptions(schema, options)).toMatchObject(expected);
  });

  test.each<[Record<string, string | boolean>, string]>([
    [{}, "Missing required parameter 'branch'"],
    [{ branch: true }, "branch needs a value"],
    [{ branch: "x", retries: "many" }, 'retries must be a number, not "many"'],
    [{ branch: "x", retries: "1.5" }, "Expected integer, got 1.5"],
    [{ branch: "x", remote: "mars" }, 'remote must be one of origin, upstream, not "mars"'],
    [{ branch: "x", force: "perhaps" }, 'force must be yes or no, not "perhaps"'],
    [{ branch: "x", bransh: "y" }, "Unknown option bransh. Did you mean --branch?"],
    [{ branch: "x", r: "y" }, "-r could mean --remote or --retries. Write the full name."],
    [{ branch: "x", labels: "[oops" }, "labels is not valid JSON"],
  ])("rejects %j", async (options, message) => {
    const reading = argumentsFromOptions(schema, options);

    await expect(reading).rejects.toThrow(UserError);
    await expect(reading).rejects.toThrow(message);
  });

  test("reports all problems at once", async () => {
    const reading = argumentsFromOptions(schema, { branch: "x", retries: "many", force: "perhaps" });
    await expect(reading).rejects.toThrow(/retries must be a number.*\n.*force must be yes or no/);
  });

  test("an omitted required field that may be null is null", async () => {
    expect(await argumentsFromOptions(z.object({ note: z.string().nullable() }), {})).toEqual({ note: null });
  });

  test("the arguments of a transforming schema can be parsed again", async () => {
    const changing = z.object({ length: z.string().transform((text) => text.length) });
    expect(await argumentsFromOptions(changing, { length: "four" })).toEqual({ length: "four" });
  });
});

test("a field parses the input of a person", () => {
  const field = { name: "size", description: "", required: true };
  expect(parseFieldValue({ ...field, type: "select", options: ["Small", "Large"] }, "small")).toBe("Small");
  expect(parseFieldValue({ ...field, type: "number" }, " 4 ")).toBe(4);
  expect(parseFieldValue({ ...field, type: "boolean" }, "n")).toBe(false);
  expect(parseFieldValue({ ...field, type: "text" }, "4")).toBe("4");
  expect(() => parseFieldValue({ ...field, type: "number" }, "")).toThrow("size must be a number");
});

test("only tools that people may call have a form", () => {
  const push: NamedTool = {
    name: "git_push",
    description: "Pushes",
    inputSchema: pushSchema,
    execute: () => "pushed",
    manualExecution: { mode: "manual", label: "Push to Remote", category: "Git" },
  };
  const read: NamedTool = { name: "read_file", description: "Reads", inputSchema: z.object({}), execute: () => "" };
  const tests: NamedTool = { ...read, name: "run_tests", manualExecution: { mode: "both" } };

  expect(extractManualToolInfo(push)).toMatchObject({ name: "git_push", label: "Push to Remote", category: "Git" });
  expect(extractManualToolInfo(push)?.fields).toHaveLength(3);
  expect(extractManualToolInfo(read)).toBeNull();
  expect(getManualToolInfos({ push, read, tests }).map(({ label }) => label)).toEqual(["Push to Remote", "run_tests"]);
});

test("zod 4 objects are distinguished from other schemas", () => {
  expect(isZodObjectSchema(z.object({}))).toBe(true);
  expect([z.string(), null, undefined, {}].map(isZodObjectSchema)).toEqual([false, false, false, false]);
});
