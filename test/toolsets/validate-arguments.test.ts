import { jsonSchema } from "ai";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { compileSchema } from "#domain/tool-schema.ts";
import { exampleCall } from "#toolsets/example-call.ts";
import { repairArguments } from "#toolsets/repair-arguments.ts";
import { validateArguments } from "#toolsets/validate-arguments.ts";

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

describe("a call that is given up says what would do", () => {
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

  test("a union names all it takes", async () => {
    const schema = z.object({ target: z.union([z.string(), z.boolean()]) });
    expect((await refused({ target: 5 }, schema)).error?.message).toContain("Expected string or boolean, got number");
  });

  test("a slip of the hand in a name is pointed out", async () => {
    expect((await refused({ pth: "a" })).llmContent).toContain("Did you mean 'path' instead of 'pth'?");
    const strict = await refused({ path: "a", limmit: 3 }, readSchema.strict());
    expect(strict.error?.message).toContain("Unknown parameter 'limmit' for read_file.");
    expect(strict.llmContent).toContain("Did you mean 'limit' instead of 'limmit'?");
  });

  test("everything that is wrong is said, but not without end", async () => {
    const many = z.object(Object.fromEntries("abcdefg".split("").map((name) => [name, z.string()])));
    const { message } = (await refused({}, many)).error ?? {};
    expect(message?.split("\n")).toHaveLength(6);
    expect(message).toContain("And 2 more.");
  });

  test("arguments that are no JSON are told so, with the reason", async () => {
    const result = await refused('{"path": "a', readSchema, "The arguments are no JSON: Unexpected end of JSON input");
    expect(result.error?.message).toContain("could not be read. The arguments are no JSON: Unexpected end");
    expect(result.llmContent).toContain('Example: read_file(path="src/main.ts")');
  });

  test("a schema of JSON Schema alone is held to as well, and its patterns cannot hang anyone", async () => {
    const schema = await compileSchema(
      jsonSchema({ type: "object", properties: { a: { type: "string", pattern: "^(a+)+$" } }, required: ["a"] }),
    );
    const bad = await validateArguments("mcp_tool", schema, { args: { a: 5 } });
    const long = await validateArguments("mcp_tool", schema, { args: { a: `${"a".repeat(50)}!` } });

    expect(bad.valid ? "" : bad.result.error?.message).toContain("Expected string, got number");
    expect(long.valid).toBe(true);
  });

  test("a schema whose own code fails is a refusal, not a crash", async () => {
    const schema = z.object({ path: z.string().transform((text) => JSON.parse(text)) });
    expect((await refused({ path: "{" }, schema)).error?.code).toBe("INVALID_ARGUMENTS");
  });
});

describe("repair", () => {
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
    ["a known name first", { path: "a", file: "b" }, { path: "a" }],
  ])("%s", async (_, args, repaired) => {
    expect(await check(args)).toEqual(repaired);
  });

  test("a name of another system counts where it may be left out, too", async () => {
    const grep = z.object({ pattern: z.string(), path: z.string().optional() });
    expect(await check({ pattern: "x", directory: "src" }, grep)).toEqual({ pattern: "x", path: "src" });
  });

  test("one path for a tool that takes several", async () => {
    const many = z.object({ file_paths: z.array(z.string()) });
    expect(await check({ path: "a" }, many)).toEqual({ file_paths: ["a"] });
  });

  test("fenced JSON that could not be read is read", async () => {
    expect(await check('```json\n{"path": "a"}\n```', readSchema, "no JSON")).toEqual({ path: "a" });
  });

  test.each(['{"path": "a', '{"path": "a"} and more', "rm -rf /"])("never completes or guesses %j", async (args) => {
    expect(await check(args, readSchema, "no JSON")).toContain("could not be read");
  });

  test("text stays text where text is wanted", async () => {
    const content = z.object({ content: z.string() });
    expect(await check({ content: '{"a": 1}' }, content)).toEqual({ content: '{"a": 1}' });
    expect(await check({ content: "5" }, content)).toEqual({ content: "5" });
    expect(await check({ content: 5 }, content)).toContain("Expected string, got number");
  });

  test("defaults are part of what is shown and stored", async () => {
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

  test("never crashes, and whatever passes validates again to the same", async () => {
    await fc.assert(
      fc.asyncProperty(anySchema, anyArgs, async (schema, args) => {
        const opened = await compileSchema(schema);
        const checked = await validateArguments("tool", opened, { args });
        if (!checked.valid) {
          expect(checked.result.error?.code).toBe("INVALID_ARGUMENTS");
          expect(checked.result.llmContent).toContain("Example: tool(");
          return;
        }
        expect(schema.safeParse(checked.args).data).toEqual(checked.value);
      }),
    );
  });

  test("leaves alone what is right", async () => {
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
  ["an example of its own", z.object({ q: z.string().meta({ examples: ["cats"] }) }), 't(q="cats")'],
])("an example call with %s", async (_, schema, example) => {
  expect(exampleCall("t", (await compileSchema(schema)).json)).toBe(example);
});

test("a schema is opened once", async () => {
  expect(compileSchema(readSchema)).toBe(compileSchema(readSchema));
});
