import { describe, expect, test } from "vitest";
import { InvalidFileError, UserError } from "#domain/errors.ts";
import { Limits, parseWorker, positionInWorker, withOutputSchema } from "#domain/worker.ts";

const parse = (fields: string, instructions = "Fix what is asked.") =>
  parseWorker(`---\nname: fixer\n${fields}\n---\n${instructions}`, "fixer.worker");

test("a worker file needs only a name; everything else has a default", () => {
  expect(parseWorker("---\nname: fixer\n---\n\nFix it.\n", "fixer.worker")).toEqual({
    name: "fixer",
    mode: "single",
    toolsets: {},
    limits: { steps: 50, tokens: 2_000_000, cost: 5, minutes: 60, depth: 3, children: 10, ci_repairs: 2 },
    max_context_tokens: 200_000,
    allow_empty_input: false,
    server_side_tools: [],
    locked: false,
    instructions: "Fix it.",
  });
});

test.each([
  ["Windows line ends", "---\r\nname: fixer\r\n---\r\nFix it."],
  ["a byte order mark", "\uFEFF---\nname: fixer\n---\nFix it."],
  ["spaces after the lines", "--- \nname: fixer\n---\t\nFix it."],
  ["a line in the instructions", "---\nname: fixer\n---\nFix it.\n"],
])("a worker file may have %s", (_, text) => {
  expect(parseWorker(text, "fixer.worker")).toMatchObject({ name: "fixer", instructions: "Fix it." });
});

test("a worker file may end after its front matter", () => {
  expect(parseWorker("---\nname: fixer\n---", "fixer.worker").instructions).toBe("");
});

test("a line of dashes in the instructions belongs to them", () => {
  expect(parseWorker("---\nname: fixer\n---\nA\n---\nB", "fixer.worker").instructions).toBe("A\n---\nB");
});

describe("worker file is refused", () => {
  test.each([
    ["without front matter", "Fix it.", "fixer.worker has no front matter."],
    ["with text before it", "Hello\n---\nname: fixer\n---\n", "fixer.worker has no front matter."],
    ["with a list as front matter", "---\n- name\n---\n", 'must be a list of fields such as "name: fixer".'],
    ["with text as front matter", "---\nname\n---\n", 'must be a list of fields such as "name: fixer".'],
    ["with nothing as front matter", "---\n\n---\n", 'must be a list of fields such as "name: fixer".'],
  ])("%s", (_, text, message) => {
    expect(() => parseWorker(text, "fixer.worker")).toThrow(UserError);
    expect(() => parseWorker(text, "fixer.worker")).toThrow(message);
  });

  test.each([
    ["instructons: Hi", "Unknown field instructons."],
    ["locked: maybe", "locked: Expected boolean, got string."],
    ["tolsets: {}", "Unknown field tolsets. Did you mean toolsets?"],
    ["limits: { step: 3 }", "Unknown field limits.step. Did you mean steps?"],
    ["attachment_policy: { max_attachment: 3 }", "Did you mean max_attachments?"],
    ["on: { issue: { types: [opened] } }", "Did you mean issues?"],
    ["on: { issues: { typs: [opened] } }", "Did you mean types?"],
    ["on: { pull_request: { types: [opened], pats: [a] } }", "Did you mean paths?"],
    ["sandbox: { zone: [] }", "Unknown field sandbox.zone. Did you mean zones?"],
    ["sandbox: { zones: [{ name: docs, mod: ro }] }", "Unknown field sandbox.zones.0.mod. Did you mean mode?"],
    ["sandbox: { approval: { writ: ask } }", "Unknown field sandbox.approval.writ. Did you mean write?"],
    ["sandbox: { zones: [{ name: docs, approval: { delet: ask } }] }", "Did you mean delete?"],
    ["sandbox: { zones: [{ name: a/b }] }", "A zone's name is a top-level folder, such as docs"],
    ["sandbox: { zones: [{ name: docs }, { name: docs }] }", "sandbox.zones.1: The zone docs is defined twice"],
    ["sandbox: { restrict: docs }", "sandbox.restrict"],
    ["setup: []", "setup"],
    ["compatible_models: []", "compatible_models"],
    ["offered_tools: []", "offered_tools"],
    ["max_context_tokens: 0", "max_context_tokens"],
    ["guidance_tokens: -1", "guidance_tokens"],
    ["output_schema_ref: ''", "output_schema_ref"],
    ["attachment_policy: { max_total_bytes: 0 }", "attachment_policy.max_total_bytes"],
  ])("a worker file is refused with %s", (fields, message) => {
    expect(() => parse(fields)).toThrow(InvalidFileError);
    expect(() => parse(fields)).toThrow(message);
  });

  test.each(["-fixer", "fix er", "", "x".repeat(65)])("a worker file is refused when its name is %j", (name) => {
    const text = `---\nname: ${JSON.stringify(name)}\n---\n`;

    expect(() => parseWorker(text, "fixer.worker")).toThrow("A worker's name consists of letters, digits, - and _");
  });

  test("a worker file is refused with the position of each problem", () => {
    const problems = [
      { message: "Unknown field tolsets. Did you mean toolsets?", line: 3, column: 1 },
      { message: "limits.steps: Expected number, got string.", line: 5, column: 3 },
    ];

    try {
      parse("tolsets: {}\nlimits:\n  steps: many");
      expect.unreachable();
    } catch (error) {
      expect((error as InvalidFileError).problems).toEqual(expect.arrayContaining(problems));
    }
  });
});

test("the position of a field counts from the beginning of the file", () => {
  const text = "---\nname: fixer\nlimits:\n  steps: 3\n---\n";

  expect(positionInWorker(text, ["limits", "steps"])).toMatchObject({ line: 4 });
  expect(positionInWorker(text, ["name"])).toMatchObject({ line: 2 });
  expect(positionInWorker("no front matter", ["name"])).toMatchObject({ line: 2 });
});

describe("limits", () => {
  test.each([
    ["steps", [1, 1_000], [0, 1_001, 1.5]],
    ["tokens", [1], [0, 1.5]],
    ["cost", [0.01], [0]],
    ["minutes", [0.5, 1_440], [0, 1_441]],
    ["depth", [0, 10], [-1, 11, 0.5]],
    ["children", [0, 100], [-1, 101, 0.5]],
    ["ci_repairs", [0, 20], [-1, 21, 0.5]],
  ])("%s may be %j, and not %j", (name, allowed, refused) => {
    for (const value of allowed) expect(Limits.parse({ [name]: value })).toMatchObject({ [name]: value });
    for (const value of refused) expect(Limits.safeParse({ [name]: value }).success).toBe(false);
  });

  test("limits have no other names", () => {
    expect(Limits.safeParse({ hours: 1 }).success).toBe(false);
  });
});

describe("zone", () => {
  const zone = (fields: string) => parse(`sandbox: { zones: [{ name: docs${fields} }] }`).sandbox?.zones?.[0];

  test("a zone may be written to unless it says otherwise", () => {
    expect(zone("")).toEqual({ name: "docs", mode: "rw" });
    expect(zone(", mode: ro, keep: run, path: site/docs, approval: { write: ask, delete: blocked }")).toEqual({
      name: "docs",
      mode: "ro",
      keep: "run",
      path: "site/docs",
      approval: { write: "ask", delete: "blocked" },
    });
  });

  test.each([", mode: r", ", keep: always", ", approval: { write: maybe }", ", extra: 1"])(
    "a zone refuses %j",
    (fields) => {
      expect(() => zone(fields)).toThrow("sandbox.zones.0");
    },
  );
});

describe("callable workers", () => {
  test.each([
    ["toolsets: { workers: { allowed: [a, b] } }"],
    ["toolsets: { worker: { allowed: [a, b] } }"],
    ["toolsets: { delegation: { allowed_workers: [a, b] } }"],
    ["toolsets: { worker_call: { allowWorkers: [a, b] } }"],
    ["toolsets: { workers: { workers: [a, b] } }"],
    ["allowed_workers: [a, b]"],
    ["allowedWorkers: [a, b]"],
  ])("callable workers may be written as %s", (fields) => {
    expect(parse(fields).toolsets).toEqual({ workers: { allowed: ["a", "b"] } });
  });

  test("callable workers keep the other toolsets and settings", () => {
    expect(parse("allowed_workers: [a]\ntoolsets: { git: {} }").toolsets).toEqual({
      git: {},
      workers: { allowed: ["a"] },
    });
    expect(parse("toolsets: { workers: { allow: [a] } }").toolsets).toEqual({ workers: { allowed: ["a"] } });
    expect(parse("toolsets: { git: {}, worker: { allow_workers: a, ask: true } }").toolsets).toEqual({
      git: {},
      workers: { ask: true, allowed: ["a"] },
    });
  });

  test.each([
    [
      "toolsets: { workers: { allowed: [a] }, worker: { allowed: [b] } }",
      { workers: { allowed: ["a"] }, worker: { allowed: ["b"] } },
    ],
    ["toolsets: { workers: { allowed: [a], workers: [b] } }", { workers: { allowed: ["a"], workers: ["b"] } }],
    ["toolsets: { worker: null }", { worker: null }],
    ["toolsets: { worker: [{ allowed: [a] }] }", { worker: [{ allowed: ["a"] }] }],
    ["toolsets: { git: { workers: [a] } }", { git: { workers: ["a"] } }],
    ["toolsets: { worker: { ask: true } }", { workers: { ask: true } }],
    ["toolsets: null", {}],
  ])("callable workers are left alone in %s", (fields, toolsets) => {
    expect(parse(fields).toolsets).toEqual(toolsets);
  });
});

test("an output schema in the file itself needs no other file", () => {
  const own = parse("output_schema: { type: array }\noutput_schema_ref: ./other.json");
  const none = parse("locked: true");

  expect(withOutputSchema(own, undefined)).toBe(own);
  expect(withOutputSchema(none, "{}")).toBe(none);
});
