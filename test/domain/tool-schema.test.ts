import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { describeMismatch, describeSchemaIssue, valueAt } from "#domain/schema-issue.ts";
import { compileSchema, isZodSchema, jsonSchemaOf, parseArguments, serverSchema } from "#domain/tool-schema.ts";

const schema = z.strictObject({
  path: z.string(),
  limit: z.int().optional(),
  mode: z.enum(["fast", "slow"]).optional(),
  kind: z.literal("all").optional(),
  target: z.union([z.string(), z.int()]).optional(),
  choice: z.union([z.literal("a"), z.number()]).optional(),
  files: z.array(z.strictObject({ name: z.string() })).optional(),
  short: z.string().max(3).optional(),
});

test.each<[object, string]>([
  [{}, "Missing required parameter 'path' for read_file"],
  [{ path: 3 }, "Invalid type for parameter 'path' in read_file: Expected string, got number"],
  [{ path: null }, "Invalid type for parameter 'path' in read_file: Expected string, got null"],
  [{ path: "a", limit: 1.5 }, "Invalid type for parameter 'limit' in read_file: Expected integer, got 1.5"],
  [{ path: "a", limit: "1" }, "Invalid type for parameter 'limit' in read_file: Expected number, got string"],
  [
    { path: "a", mode: "quick" },
    'Invalid value for parameter \'mode\' in read_file: Expected one of "fast", "slow", got "quick"',
  ],
  [{ path: "a", kind: "some" }, 'Invalid value for parameter \'kind\' in read_file: Expected "all", got "some"'],
  [
    { path: "a", target: [] },
    "Invalid value for parameter 'target' in read_file: Expected string or number, got array",
  ],
  [{ path: "a", choice: true }, "Invalid value for parameter 'choice' in read_file: Invalid input, got true"],
  [
    { path: "a", files: [{ name: 1 }] },
    "Invalid type for parameter 'files[0].name' in read_file: Expected string, got number",
  ],
  [{ path: "a", files: [{}] }, "Missing required parameter 'files[0].name' for read_file"],
  [{ path: "a", files: [{ name: "a", x: 1 }] }, "Unknown parameter 'files[0].x' for read_file"],
  [{ path: "a", x: 1, y: 2 }, "Unknown parameter 'x', 'y' for read_file"],
  [[], "Invalid arguments for read_file: Expected object, got array"],
])("%j is described as %s", (args, text) => {
  const [issue] = schema.safeParse(args).error?.issues ?? [];

  expect(describeSchemaIssue("read_file", issue as never, args)).toBe(text);
});

test("a long value is shortened to 60 characters, and a missing one is not shown", () => {
  const issue = { path: [], message: "Too long" };

  expect(describeMismatch(issue, "x".repeat(58))).toBe(`Too long, got "${"x".repeat(58)}"`);
  expect(describeMismatch(issue, "x".repeat(59))).toBe(`Too long, got "${"x".repeat(56)}...`);
  expect(describeMismatch(issue, 3n)).toBe("Too long, got 3");
  expect(describeMismatch(issue, () => 1)).toBe("Too long, got function");
  expect(describeMismatch(issue, undefined)).toBe("Too long");
});

test("an issue without details is described by its message", () => {
  const issue = (code: string) => ({ code, path: [], message: "No" });

  for (const code of ["invalid_type", "invalid_value", "invalid_union"]) {
    expect(describeMismatch(issue(code), 1)).toBe("No, got 1");
  }
});

test("a value is found by its path, but nothing that it inherits", () => {
  const value = { a: [{ b: 1 }] };

  expect(valueAt(value, ["a", 0, "b"])).toBe(1);
  expect(valueAt(value, [])).toBe(value);
  expect(valueAt(value, ["a", 1, "b"])).toBeUndefined();
  expect(valueAt(value, ["toString"])).toBeUndefined();
  expect(valueAt("text", ["length"])).toBeUndefined();
  expect(valueAt(null, ["a"])).toBeUndefined();
});

describe("schema of another library", () => {
  const json = { type: "object", properties: { path: { type: "string", pattern: "^(a+)+$" } }, required: ["path"] };
  const plain = (changes: object) => ({
    [Symbol.for("vercel.ai.schema")]: true,
    validate: undefined,
    jsonSchema: json,
    ...changes,
  });
  const compile = (changes: object) => compileSchema(plain(changes) as never);

  test("a schema of another library validates as the library does", async () => {
    const { validate } = await compile({
      validate: async (value: unknown) => ({ success: true, value: { got: value } }),
    });

    expect(await validate(1)).toEqual({ valid: true, value: { got: 1 } });
  });

  test.each<[string, unknown, object[]]>([
    ["issues", { issues: [{ message: "Too short", path: ["path"] }] }, [{ message: "Too short", path: ["path"] }]],
    ["issues in its cause", { cause: { issues: [{}] } }, [{ message: "is not valid", path: [] }]],
    ["an error", new Error("Broken"), [{ message: "Broken", path: [] }]],
    ["a text", "Broken", [{ message: "Broken", path: [] }]],
    ["nothing", undefined, [{ message: "undefined", path: [] }]],
  ])("a schema of another library reports %s", async (_, error, issues) => {
    const refusing = await compile({ validate: async () => ({ success: false, error }) });
    const throwing = await compile({ validate: () => Promise.reject(error) });

    expect(await refusing.validate(1)).toEqual({ valid: false, issues });
    expect(await throwing.validate(1)).toEqual({ valid: false, issues });
  });

  test("a schema of another library without a validator is checked by its JSON Schema, except for its patterns", async () => {
    const { validate, json: compiled } = await compile({ validate: undefined });

    expect(compiled).toEqual(json);
    expect(await validate({ path: "b" })).toMatchObject({ valid: true, value: { path: "b" } });
    expect(await validate({})).toMatchObject({ valid: false, issues: [{ path: ["path"] }] });
  });

  test("a schema of another library that cannot be converted accepts every object", async () => {
    const { validate } = await compile({ validate: undefined, jsonSchema: { type: "unheard-of" } });

    expect(await validate({ anything: 1 })).toEqual({ valid: true, value: { anything: 1 } });
    expect(await validate("text")).toMatchObject({ valid: false });
  });

  test("a schema of another library keeps properties that are named pattern", async () => {
    const properties = {
      pattern: { type: "string" },
      list: { type: "array", items: { type: "string", pattern: "x" } },
    };
    const { validate } = await compile({ validate: undefined, jsonSchema: { type: "object", properties } });

    expect(await validate({ pattern: 1 })).toMatchObject({ valid: false });
    expect(await validate({ pattern: "a", list: ["b"] })).toMatchObject({ valid: true });
    expect(await validate({ list: [1] })).toMatchObject({ valid: false });
  });

  test("a schema of another library is compiled once", () => {
    const one = plain({});

    expect(compileSchema(one as never)).toBe(compileSchema(one as never));
  });
});

describe("the JSON Schema of", () => {
  test("a zod schema is that of its input", () => {
    expect(jsonSchemaOf(z.object({ a: z.string().transform(Number), b: z.number().default(1) }))).toEqual({
      type: "object",
      properties: { a: { type: "string" }, b: { default: 1, type: "number" } },
      required: ["a"],
    });
  });

  test.each([[undefined], [null], ["text"], [3]])("%j does not exist", (value) => {
    expect(jsonSchemaOf(value)).toBeUndefined();
  });

  test("an asynchronous schema is not available at once", () => {
    const later = {
      [Symbol.for("vercel.ai.schema")]: true,
      validate: undefined,
      jsonSchema: Promise.resolve({ type: "object" }),
    };

    expect(jsonSchemaOf({ ...later, jsonSchema: { type: "object" } })).toEqual({ type: "object" });
    expect(jsonSchemaOf(later)).toBeUndefined();
  });
});

test("zod schemas are recognized", () => {
  expect([z.string(), {}, null, "text", undefined].map(isZodSchema)).toEqual([true, false, false, false, false]);
});

describe("arguments", () => {
  const parse = async (inputSchema: z.ZodType, given: unknown) =>
    parseArguments(await compileSchema(inputSchema), given);

  test("arguments are stored as the schema completes them", async () => {
    const complete = z.object({ path: z.string(), limit: z.number().default(5) });

    expect(await parse(complete, { path: "a", more: 1 })).toEqual({
      valid: true,
      value: { path: "a", limit: 5 },
      args: { path: "a", limit: 5 },
    });
  });

  test("arguments that the schema transforms are stored as they were given", async () => {
    const transform = z.object({ at: z.string().transform((text) => text.length) });

    expect(await parse(transform, { at: "abc" })).toEqual({ valid: true, value: { at: 3 }, args: { at: "abc" } });
  });

  test("arguments that parse to something else the second time are stored as they were given", async () => {
    const growing = z.object({ text: z.string().transform((text) => `${text}!`) });

    expect(await parse(growing, { text: "a" })).toEqual({ valid: true, value: { text: "a!" }, args: { text: "a" } });
  });

  test("arguments that cannot be stored are kept as they were given", async () => {
    const big = z.object({ n: z.number().transform(BigInt) });

    expect(await parse(big, { n: 3 })).toEqual({ valid: true, value: { n: 3n }, args: { n: 3 } });
    expect(
      await parse(
        z.any().transform(() => undefined),
        3,
      ),
    ).toEqual({ valid: true, value: undefined, args: undefined });
  });

  test("arguments that do not match are reported", async () => {
    expect(await parse(z.object({ path: z.string() }), {})).toMatchObject({
      valid: false,
      issues: [{ path: ["path"] }],
    });
  });

  test("arguments of a schema that throws are reported", async () => {
    const broken = z.any().transform(() => {
      throw new Error("Broken");
    });

    expect(await parse(broken, 1)).toEqual({ valid: false, issues: [{ path: [], message: "Broken" }] });
  });
});

test("the schema of a server's tool is read when a value is checked, and not when the tool is listed", async () => {
  const properties = vi.fn(() => ({ a: { type: "string" } }));
  const json = Object.defineProperty({ type: "object" as const }, "properties", { get: properties, enumerable: true });

  const { validate } = await compileSchema(serverSchema(json));

  expect(properties).not.toHaveBeenCalled();
  expect(await validate({ a: 1 })).toMatchObject({ valid: false, issues: [{ path: ["a"] }] });
});
