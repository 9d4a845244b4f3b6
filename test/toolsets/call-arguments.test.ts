import { jsonSchema } from "ai";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { compileSchema } from "#domain/tool-schema.ts";
import { exampleCall, repairArguments, validateArguments } from "#toolsets/call-arguments.ts";

const readSchema = z.object({
  path: z.string(),
  limit: z.number().int().min(0).optional(),
  encoding: z.enum(["utf-8", "base64"]).optional(),
  tags: z.array(z.string()).optional(),
  recursive: z.boolean().optional(),
  filter: z.object({ name: z.string(), depth: z.number().optional() }).optional(),
});

async function check(args: unknown, schema: z.ZodType = readSchema, unreadable?: string) {
  const checked = await validateArguments("read_file", await compileSchema(schema), {
    args,
    ...(unreadable !== undefined && { parseError: unreadable }),
  });
  return checked.valid ? checked.args : checked.result.error?.message;
}

async function refused(args: unknown, schema: z.ZodType = readSchema, unreadable?: string) {
  const checked = await validateArguments("read_file", await compileSchema(schema), {
    args,
    ...(unreadable !== undefined && { parseError: unreadable }),
  });
  if (checked.valid) throw new Error(`It was valid: ${JSON.stringify(checked.args)}`);
  return checked.result;
}

describe("an invalid call is refused with the problem and an example", () => {
  test.each<[string, unknown, string]>([
    ["a missing parameter", {}, "Missing required parameter 'path' for read_file."],
    ["no arguments", undefined, "Missing required parameter 'path' for read_file."],
    ["a wrong type", { path: 5 }, "Invalid type for parameter 'path' in read_file: Expected string, got number."],
    ["null", { path: null }, "Invalid type for parameter 'path' in read_file: Expected string, got null."],
    ["a list", { path: ["a", "b"] }, "Invalid type for parameter 'path' in read_file: Expected string, got array."],
    [
      "a word for a number",
      { path: "a", limit: "ten" },
      "parameter 'limit' in read_file: Expected number, got string.",
    ],
    ["a fraction", { path: "a", limit: 1.5 }, "parameter 'limit' in read_file: Expected integer, got 1.5."],
    [
      "a number out of range",
      { path: "a", limit: -1 },
      "Invalid value for parameter 'limit' in read_file: Too small: expected number to be >=0, got -1.",
    ],
    [
      "a value not among the choices",
      { path: "a", encoding: "latin1" },
      `parameter 'encoding' in read_file: Expected one of "utf-8", "base64", got "latin1".`,
    ],
    [
      "an item of a list",
      { path: "a", tags: ["x", 5] },
      "parameter 'tags[1]' in read_file: Expected string, got number.",
    ],
    ["a member of an object", { path: "a", filter: {} }, "Missing required parameter 'filter.name' for read_file."],
    ["no object", ["a", "b"], "Invalid arguments for read_file: Expected object, got array."],
  ])("%s", async (_, args, message) => {
    const { error, llmContent } = await refused(args);

    expect(error).toMatchObject({ code: "INVALID_ARGUMENTS", type: "validation_error" });
    expect(error?.message).toContain(message);
    expect(llmContent).toContain('Example: read_file(path="src/main.ts")');
  });

  test("an example that would explain no parameter is left out, and that of a pattern is a glob and a regular expression", async () => {
    const optional = z.object({ limit: z.number().min(0).optional() });
    const pattern = z.object({ pattern: z.string().min(1) });

    expect((await refused({ limit: -1 }, optional)).llmContent).not.toContain("Example");
    expect((await refused({ pattern: "" }, pattern)).llmContent).toContain('Example: read_file(pattern="src/*")');
  });

  test("a union names all accepted types", async () => {
    const schema = z.object({ target: z.union([z.string(), z.boolean()]) });
    expect((await refused({ target: 5 }, schema)).error?.message).toContain("Expected string or boolean, got number");
  });

  test("a misspelled parameter is reported with the closest name", async () => {
    expect((await refused({ pth: "a" })).llmContent).toContain("Did you mean 'path' instead of 'pth'?");
    const strict = await refused({ path: "a", limmit: 3 }, readSchema.strict());
    expect(strict.error?.message).toContain("Unknown parameter 'limmit' for read_file.");
    expect(strict.llmContent).toContain("Did you mean 'limit' instead of 'limmit'?");
  });

  test("at most five problems of an invalid call are listed", async () => {
    const many = z.object(Object.fromEntries("abcdefg".split("").map((name) => [name, z.string()])));
    const { message } = (await refused({}, many)).error ?? {};
    expect(message?.split("\n")).toHaveLength(6);
    expect(message).toContain("And 2 more.");
  });

  test("arguments that are not valid JSON are refused with the parse error", async () => {
    const result = await refused('{"path": "a', readSchema, "The arguments are no JSON: Unexpected end of JSON input");
    expect(result.error?.message).toContain("could not be read. The arguments are no JSON: Unexpected end");
    expect(result.llmContent).toContain('Example: read_file(path="src/main.ts")');
  });

  test("plain JSON Schema is validated, without evaluating its regular expressions", async () => {
    const schema = await compileSchema(
      jsonSchema({ type: "object", properties: { a: { type: "string", pattern: "^(a+)+$" } }, required: ["a"] }),
    );
    const bad = await validateArguments("mcp_tool", schema, { args: { a: 5 } });
    const long = await validateArguments("mcp_tool", schema, { args: { a: `${"a".repeat(50)}!` } });

    expect(bad.valid ? "" : bad.result.error?.message).toContain("Expected string, got number");
    expect(long.valid).toBe(true);
  });

  test("a schema that throws refuses the call", async () => {
    const schema = z.object({ path: z.string().transform((text) => JSON.parse(text)) });
    expect((await refused({ path: "{" }, schema)).error?.code).toBe("INVALID_ARGUMENTS");
  });
});

describe("repairing arguments", () => {
  test.each<[string, unknown, unknown]>([
    ["JSON as text", '{"path": "a"}', { path: "a" }],
    ["JSON twice as text", '"{\\"path\\": \\"a\\"}"', { path: "a" }],
    ["fenced JSON", '```json\n{"path": "a"}\n```', { path: "a" }],
    ["a number in quotes", { path: "a", limit: "10" }, { path: "a", limit: 10 }],
    ["a boolean in quotes", { path: "a", recursive: "True" }, { path: "a", recursive: true }],
    ["one value for a list", { path: "a", tags: "x" }, { path: "a", tags: ["x"] }],
    ["a list as JSON", { path: "a", tags: '["x", "y"]' }, { path: "a", tags: ["x", "y"] }],
    [
      "an object as JSON",
      { path: "a", filter: '{"name": "n", "depth": "2"}' },
      { path: "a", filter: { name: "n", depth: 2 } },
    ],
    ["a list of one for a value", { path: ["a"] }, { path: "a" }],
    ["null for what may be left out", { path: "a", limit: null }, { path: "a" }],
    ["another system's name", { file_path: "a" }, { path: "a" }],
    ["another system's list", { file_paths: ["a"] }, { path: "a" }],
    ["another way of writing a name", { Path: "a", "re-cursive": true }, { path: "a", recursive: true }],
  ])("%s", async (_, args, repaired) => {
    expect(await check(args)).toEqual(repaired);
  });

  test("a name of another system is understood for an optional parameter, too", async () => {
    const grep = z.object({ pattern: z.string(), path: z.string().optional() });
    expect(await check({ pattern: "x", directory: "src" }, grep)).toEqual({ pattern: "x", path: "src" });
  });

  test("a tool for several paths accepts a single one", async () => {
    const many = z.object({ file_paths: z.array(z.string()) });
    expect(await check({ path: "a" }, many)).toEqual({ file_paths: ["a"] });
  });

  test("fenced JSON is parsed", async () => {
    expect(await check('```json\n{"path": "a"}\n```', readSchema, "no JSON")).toEqual({ path: "a" });
  });

  test.each(['{"path": "a', '{"path": "a"} and more', "rm -rf /"])("never completes or guesses %j", async (args) => {
    expect(await check(args, readSchema, "no JSON")).toContain("could not be read");
  });

  test("text that looks like JSON stays text where the schema wants text", async () => {
    const content = z.object({ content: z.string() });
    expect(await check({ content: '{"a": 1}' }, content)).toEqual({ content: '{"a": 1}' });
    expect(await check({ content: "5" }, content)).toEqual({ content: "5" });
    expect(await check({ content: 5 }, content)).toContain("Expected string, got number");
  });

  test("defaults are part of the arguments that are shown and stored", async () => {
    const schema = z.object({ remote: z.string().default("origin") });
    expect(await check({}, schema)).toEqual({ remote: "origin" });
  });

  const anySchema = fc.constantFrom<z.ZodType>(
    readSchema,
    readSchema.strict(),
    z.object({ a: z.union([z.string(), z.array(z.number())]), b: z.record(z.string(), z.boolean()).optional() }),
    z.object({}),
    z.record(z.string(), z.number()),
  );
  const anyArgs = fc.oneof(
    fc.anything(),
    fc.record(
      {
        path: fc.anything(),
        limit: fc.anything(),
        file_path: fc.anything(),
        tags: fc.anything(),
        ["__proto__"]: fc.anything(),
      },
      { requiredKeys: [] },
    ),
    fc.json(),
  );

  test("arbitrary arguments never crash, and accepted ones validate again to the same value", async () => {
    await fc.assert(
      fc.asyncProperty(anySchema, anyArgs, async (schema, args) => {
        const opened = await compileSchema(schema);
        const checked = await validateArguments("tool", opened, { args });
        if (!checked.valid) {
          expect(checked.result.error?.code).toBe("INVALID_ARGUMENTS");
          return;
        }
        expect(schema.safeParse(checked.args).data).toEqual(checked.value);
      }),
    );
  });

  test("valid arguments are unchanged", async () => {
    const right = fc.record(
      {
        path: fc.string(),
        limit: fc.nat(),
        encoding: fc.constantFrom("utf-8", "base64"),
        tags: fc.array(fc.string()),
        recursive: fc.boolean(),
        filter: fc.record({ name: fc.string() }),
      },
      { requiredKeys: ["path"], noNullPrototype: true },
    );
    await fc.assert(
      fc.asyncProperty(right, async (args) => {
        expect(repairArguments(args, (await compileSchema(readSchema)).json)).toEqual(args);
      }),
    );
  });
});

test.each<[string, z.ZodType, string]>([
  ["nothing required", z.object({ a: z.string().optional() }), "t()"],
  ["a choice", z.object({ mode: z.enum(["fast", "slow"]) }), 't(mode="fast")'],
  [
    "numbers, booleans, lists",
    z.object({ n: z.number().min(5), b: z.boolean(), l: z.array(z.number()) }),
    "t(n=5, b=false, l=[1])",
  ],
  ["nested objects", z.object({ tasks: z.array(z.object({ content: z.string() })) }), 't(tasks=[{"content":"value"}])'],
  ["its own example", z.object({ q: z.string().meta({ examples: ["cats"] }) }), 't(q="cats")'],
  [
    "optional parameters of which one is needed",
    z
      .object({ path: z.string().optional(), paths: z.array(z.string()).optional() })
      .refine(({ path, paths }) => path !== undefined || paths !== undefined),
    't(path="src/main.ts")',
  ],
])("an example call with %s is valid", async (_, schema, example) => {
  expect(await exampleCall("t", await compileSchema(schema))).toBe(example);
});

test("no example is given where none is known to be valid", async () => {
  const even = z.object({ n: z.string().refine((text) => text.length === 2) });
  expect(await exampleCall("t", await compileSchema(even))).toBeUndefined();
});

describe("unknown parameters", () => {
  const write = z.object({ path: z.string(), content: z.string() });

  test.each<[string, unknown, string]>([
    [
      "an option of another system",
      { path: "a", content: "b", append: true },
      "Unknown parameter 'append' for read_file.",
    ],
    [
      "an option that is off",
      { path: "a", content: "b", overwrite: false },
      "Unknown parameter 'overwrite' for read_file.",
    ],
    [
      "a second name of one that is given",
      { path: "a", content: "b", file: "c" },
      "Unknown parameter 'file' for read_file.",
    ],
  ])("a parameter that the tool does not know is named and not ignored: %s", async (_, args, message) => {
    const { error, llmContent } = await refused(args, write);

    expect(error?.message).toBe(message);
    expect(llmContent).toContain("The parameters of read_file are: path, content.");
    expect(llmContent).toContain('Example: read_file(path="src/main.ts", content="value")');
  });

  test("a parameter that the tool does not know is accepted if the tool receives it or its value is null", async () => {
    const given = { path: "a", content: "b" };

    expect(await check({ ...given, extra: 1 }, write.loose())).toEqual({ ...given, extra: 1 });
    expect(await check({ ...given, extra: null }, write)).toEqual(given);
    expect(await check({ anything: 1 }, z.record(z.string(), z.number()))).toEqual({ anything: 1 });
  });
});

test("a schema is compiled once", async () => {
  expect(compileSchema(readSchema)).toBe(compileSchema(readSchema));
});

test("no example is looked for in a schema that is too large, whatever else it refers to", async () => {
  const many = (schema: object) => {
    const names = Array.from({ length: 50 }, (_, index) => `p${index}`);
    return { type: "object", required: names, properties: Object.fromEntries(names.map((name) => [name, schema])) };
  };
  const validate = vi.fn((value: unknown) => ({ success: true as const, value }));
  const json = { ...many({ $ref: "#/$defs/part" }), $defs: { part: many({ type: "string" }) } };
  const large = { ...json, anyOf: [{ $ref: "#/missing" }] };

  for (const schema of [json, large]) {
    expect(await exampleCall("t", await compileSchema(jsonSchema(schema as object, { validate })))).toBeUndefined();
  }
  expect(validate).not.toHaveBeenCalled();
});

test("an example is looked for with few of many optional parameters, since each takes time to check", async () => {
  const properties = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`p${index}`, {}]));
  const validate = vi.fn(() => ({ success: false as const, error: new Error("never") }));
  const never = await compileSchema(jsonSchema({ type: "object", properties }, { validate }));

  expect(await exampleCall("t", never)).toBeUndefined();
  expect(validate).toHaveBeenCalledTimes(6);
});

test("no example is looked for in a large schema, even if it refers to nothing", async () => {
  const properties = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`p${index}`, {}]));
  const validate = vi.fn(() => ({ success: true as const, value: {} }));
  const large = await compileSchema(jsonSchema({ type: "object", properties, $ref: "#/nowhere" }, { validate }));

  expect(await exampleCall("t", large)).toBeUndefined();
  expect(validate).not.toHaveBeenCalled();
});

const largeSchema = {
  type: "object" as const,
  properties: Object.fromEntries(Array.from({ length: 4_000 }, (_, index) => [`p${index}`, {}])),
};

test("thousands of unknown keys do not block the event loop against thousands of parameters", async () => {
  const args = Object.fromEntries(Array.from({ length: 6_000 }, (_, index) => [`unknown_${index}`, 1]));
  const strip = await compileSchema(jsonSchema(largeSchema, { validate: () => ({ success: true, value: {} }) }));

  const before = process.cpuUsage();
  const checked = await validateArguments("t", strip, { args });
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(2_000);

  const names = [0, 1, 2, 3, 4].map((index) => `'unknown_${index}'`).join(", ");
  expect(checked).toMatchObject({
    valid: false,
    result: { error: { message: `Unknown parameter ${names}, and 5995 more for t.` } },
  });
});

test("the parameters of the objects in a list are read once", () => {
  let reads = 0;
  const properties = new Proxy(
    { count: { type: "number" as const } },
    {
      ownKeys: (target) => {
        reads += 1;
        return Object.keys(target);
      },
    },
  );
  const items = { type: "object" as const, properties };
  const json = { type: "object" as const, properties: { list: { type: "array" as const, items } } };

  const repaired = repairArguments({ list: Array.from({ length: 100 }, () => ({ count: "1" })) }, json);

  expect(repaired).toEqual({ list: Array.from({ length: 100 }, () => ({ count: 1 })) });
  expect(reads).toBe(1);
});
