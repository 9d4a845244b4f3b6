import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { BlockedError, ToolError } from "#domain/errors.ts";
import { aCall, aContext, aTool, refusalOf, toolboxWorld } from "../support/toolbox-world.ts";

describe("which tools there are", () => {
  test("an unknown tool is refused with what is there and the nearest name", async () => {
    const { review } = await toolboxWorld([aTool(), aTool({ name: "grep" })]);

    const error = refusalOf(await review("reed_file", { path: "a" }));

    expect(error).toMatchObject({
      code: "UNKNOWN_TOOL",
      type: "validation_error",
      message: "Unknown tool: reed_file.",
    });
    expect(error.llmContent).toContain("Did you mean read_file?");
    expect(error.llmContent).toContain("Available tools: read_file, grep.");
  });

  test("a manual tool is neither offered nor named to the model, and its call is refused", async () => {
    const execute = vi.fn();
    const push = aTool({ name: "git_push", execute, manualExecution: { mode: "manual" } });
    const { toolbox, review, execute: run } = await toolboxWorld([aTool(), push]);

    expect(toolbox.offered.map(({ name }) => name)).toEqual(["read_file"]);
    expect(refusalOf(await review("git_push", { path: "a" }))).toMatchObject({
      code: "MANUAL_TOOL",
      type: "permission_error",
    });
    expect(refusalOf(await review("git_pusj", {})).llmContent).not.toContain("git_push");
    expect((await run("git_push", { path: "a" })).error?.code).toBe("MANUAL_TOOL");
    expect(execute).not.toHaveBeenCalled();
  });

  test("a person calls manual tools and tools for both, and no others", async () => {
    const { review } = await toolboxWorld([
      aTool(),
      aTool({ name: "git_push", manualExecution: { mode: "manual" } }),
      aTool({ name: "run_tests", manualExecution: { mode: "both" } }),
    ]);
    const context = aContext({ invokedBy: "person" });

    expect((await review("git_push", { path: "a" }, { context })).kind).toBe("allow");
    expect((await review("run_tests", { path: "a" }, { context })).kind).toBe("allow");
    expect(refusalOf(await review("read_file", { path: "a" }, { context })).code).toBe("PERMISSION_DENIED");
  });

  test.each(["read_file", "read", "READ_FILE", "read-file"])("finds read_file as %s", async (name) => {
    const { review } = await toolboxWorld([aTool({ aliases: ["read"] })]);
    expect(await review(name, { path: "a" })).toEqual({ kind: "allow", answeredBy: "tool", args: { path: "a" } });
  });

  test("a call that a person or a worker answers says so", async () => {
    const { review } = await toolboxWorld([
      aTool({ name: "ask_user", answeredBy: { kind: "person" } }),
      aTool({ name: "tester", answeredBy: { kind: "worker", worker: "tester" } }),
    ]);

    expect(await review("ask_user", { path: "a" })).toMatchObject({ kind: "allow", answeredBy: "person" });
    expect(await review("tester", { path: "a" })).toMatchObject({ kind: "allow", answeredBy: "worker" });
  });
});

describe("consent", () => {
  test.each<[string, unknown, "allow" | "ask"]>([
    ["nothing said", undefined, "ask"],
    ["false", false, "allow"],
    ["true", true, "ask"],
    ["a function that says no", () => false, "allow"],
    ["a function that says yes", () => true, "ask"],
    ["a promise of no", async () => false, "allow"],
    ["a promise of yes", async () => true, "ask"],
    ["a function that says nothing", () => undefined, "ask"],
    ["a function that fails", () => JSON.parse("{"), "ask"],
    ["a promise that fails", () => Promise.reject(new Error("the database is down")), "ask"],
  ])("%s: %o means %s", async (_, needsApproval, kind) => {
    const { review } = await toolboxWorld([aTool({ needsApproval: needsApproval as never })]);
    expect((await review("read_file", { path: "a" })).kind).toBe(kind);
  });

  test("it depends on the arguments and on the call", async () => {
    const needsApproval = vi.fn(({ path }) => path.startsWith("/important/"));
    const { review } = await toolboxWorld([aTool({ needsApproval })]);

    expect((await review("read_file", { path: "/important/a" })).kind).toBe("ask");
    expect((await review("read_file", { path: "/other" })).kind).toBe("allow");
    expect(needsApproval).toHaveBeenCalledWith(
      { path: "/other" },
      expect.objectContaining({ toolCallId: expect.any(String), sandbox: expect.anything(), messages: [] }),
    );
  });

  test("what policy blocks is refused, says why and is not asked", async () => {
    const blocked = () => {
      throw new BlockedError("read_file", "the zone output forbids it");
    };
    const { review } = await toolboxWorld([aTool({ needsApproval: blocked })]);

    const error = refusalOf(await review("read_file", { path: "a" }));

    expect(error).toMatchObject({
      code: "BLOCKED",
      message: "read_file is blocked by policy: the zone output forbids it",
    });
  });

  test("what cannot work is refused before anyone is asked", async () => {
    const outside = () => {
      throw new ToolError("../x is outside the repository.", { code: "INVALID_PATH" });
    };
    const early = await toolboxWorld([aTool({ needsApproval: outside })]);
    const late = await toolboxWorld([aTool({ needsApproval: true, preview: outside })]);

    expect(refusalOf(await early.review("read_file", { path: "../x" })).code).toBe("INVALID_PATH");
    expect(refusalOf(await late.review("read_file", { path: "../x" })).code).toBe("INVALID_PATH");
  });

  test("a question carries the tool's reason and preview, or says who wants what", async () => {
    const { review } = await toolboxWorld([
      aTool({
        name: "write",
        needsApproval: true,
        approvalReason: ({ path }) => `It overwrites ${path}.`,
        preview: () => "+1",
      }),
      aTool({ name: "delete", needsApproval: true }),
      aTool({
        name: "odd",
        needsApproval: () => Promise.reject(new Error("no answer")),
        preview: () => JSON.parse("{"),
      }),
    ]);

    expect(await review("write", { path: "a" })).toMatchObject({ reason: "It overwrites a.", preview: "+1" });
    expect(await review("delete", { path: "a" })).toMatchObject({
      reason: "fixer wants to call delete.",
      preview: undefined,
    });
    expect(await review("odd", { path: "a" })).toMatchObject({
      kind: "ask",
      reason: "fixer wants to call odd. Its own rule for approval failed: no answer",
      preview: undefined,
    });
  });

  test("an equal call that was approved for the session is not asked again", async () => {
    const inputSchema = z.object({
      path: z.string(),
      options: z.object({ a: z.number(), b: z.number() }),
      c: z.number().default(1),
    });
    const { review } = await toolboxWorld([aTool({ inputSchema, needsApproval: true, aliases: ["read"] })]);
    const asked = await review("read_file", { path: "a", options: { a: 1, b: 2 } });
    const remembered = [{ tool: "read_file", args: asked.kind === "ask" ? asked.args : undefined }];

    const sameAgain = await review("read", { options: { b: 2, a: 1 }, path: "a" }, { remembered });
    const another = await review("read_file", { path: "a", options: { a: 1, b: 3 } }, { remembered });

    expect(sameAgain.kind).toBe("allow");
    expect(another.kind).toBe("ask");
  });

  test("what is blocked stays blocked whatever was remembered", async () => {
    const blocked = () => {
      throw new BlockedError("read_file", "no");
    };
    const { review } = await toolboxWorld([aTool({ needsApproval: blocked })]);
    const remembered = [{ tool: "read_file", args: { path: "a" } }];
    expect(refusalOf(await review("read_file", { path: "a" }, { remembered })).code).toBe("BLOCKED");
  });
});

describe("repetition", () => {
  const tools = [aTool({ readOnly: true }), aTool({ name: "write_file", execute: () => "written" })];

  test("the same reading call twice in one turn is redundant", async () => {
    const { review, finish } = await toolboxWorld(tools);
    await finish("read_file", { path: "a" }, 1);

    const error = refusalOf(await review("read_file", { path: "a" }, { context: aContext({ step: 1 }) }));

    expect(error).toMatchObject({ code: "REDUNDANT_CALL", type: "validation_error" });
    expect(error.message).toContain(
      "Redundant tool call: read_file was already called with the same arguments in this turn",
    );
  });

  test("people look as often as they like, and what they looked at is new to the model", async () => {
    const { toolbox, history, review, finish } = await toolboxWorld([
      aTool({ readOnly: true, manualExecution: { mode: "both" } }),
    ]);
    await finish("read_file", { path: "a" }, 1);
    const person = aContext({ invokedBy: "person" });

    expect((await review("read_file", { path: "a" }, { context: person })).kind).toBe("allow");
    expect(
      (await toolbox.execute(aCall("read_file", { path: "a" }), aContext({ invokedBy: "person", step: 2 }))).llmContent,
    ).toBe("content of a");

    const [call] = history.splice(0);
    if (call) history.push({ ...call, byPerson: true });
    expect((await review("read_file", { path: "a" })).kind).toBe("allow");
  });

  test("two in one answer of the model are redundant before either has run", async () => {
    const { toolbox, review } = await toolboxWorld(tools);
    const first = aCall("read_file", { path: "a", limit: 5 });
    await toolbox.review(first, aContext(), []);

    expect(refusalOf(await review("read_file", { limit: 5, path: "a" })).code).toBe("REDUNDANT_CALL");
    expect((await review("read_file", { path: "b", limit: 5 })).kind).toBe("allow");
    expect((await toolbox.review(first, aContext(), [])).kind).toBe("allow");
  });

  test("what changed something in between makes reading again worthwhile", async () => {
    const { review, finish } = await toolboxWorld(tools);
    await finish("read_file", { path: "a" }, 1);
    await finish("write_file", { path: "a" }, 1);

    expect((await review("read_file", { path: "a" })).kind).toBe("allow");
    expect(await finish("read_file", { path: "a" }, 2)).toMatchObject({ llmContent: "content of a" });
  });

  test("in a later turn it runs, with a warning before the result", async () => {
    const { review, finish } = await toolboxWorld(tools);
    await finish("read_file", { path: "a" }, 1);

    expect((await review("read_file", { path: "a" }, { context: aContext({ step: 3 }) })).kind).toBe("allow");
    const { llmContent, value } = await finish("read_file", { path: "a" }, 3);

    expect(llmContent).toMatch(/previously made in turn 1 \(2 turns ago\).*\n\ncontent of a$/s);
    expect(value).toEqual({ kind: "text", content: "content of a" });
  });

  test("a call that failed and a tool that changes things may be repeated", async () => {
    const fails = aTool({ name: "fails", readOnly: true, execute: () => Promise.reject(new Error("no")) });
    const { review, finish } = await toolboxWorld([...tools, fails]);
    await finish("fails", { path: "a" }, 1);
    await finish("write_file", { path: "a" }, 1);

    expect((await review("fails", { path: "a" })).kind).toBe("allow");
    expect((await review("write_file", { path: "a" })).kind).toBe("allow");
    expect((await review("write_file", { path: "a" })).kind).toBe("allow");
  });
});

test("a review whose signal is aborted asks nothing and refuses as interrupted", async () => {
  const needsApproval = vi.fn(() => true);
  const { review } = await toolboxWorld([aTool({ needsApproval })]);

  const refused = await review("read_file", { path: "a" }, { context: aContext({ abortSignal: AbortSignal.abort() }) });

  expect(refusalOf(refused).type).toBe("interrupted");
  expect(needsApproval).not.toHaveBeenCalled();
});

test("a rule for approval that never answers does not hold up an interruption", async () => {
  const stop = new AbortController();
  const needsApproval = () => new Promise<boolean>(() => stop.abort());
  const { review } = await toolboxWorld([aTool({ needsApproval })]);

  const refused = await review("read_file", { path: "a" }, { context: aContext({ abortSignal: stop.signal }) });

  expect(refusalOf(refused).type).toBe("interrupted");
});
