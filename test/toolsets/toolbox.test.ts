import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { ToolEvents } from "#toolsets/tool-events.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";
import { aCall, aContext, aTool, toolboxWorld } from "../support/toolbox-world.ts";

const never = new Promise<never>(() => {});

describe("interruption", () => {
  test("a call with an aborted signal does not run", async () => {
    const run = vi.fn(() => never);
    const { execute } = await toolboxWorld([aTool({ execute: run })]);

    const result = await execute("read_file", { path: "a" }, aContext({ abortSignal: AbortSignal.abort() }));

    expect(run).not.toHaveBeenCalled();
    expect(result.error).toMatchObject({ type: "interrupted", code: "INTERRUPTED" });
    expect(result.value).toMatchObject({ kind: "json", data: { type: "interrupted" } });
    expect(result.llmContent).toContain("It had no effect.");
  });

  test("a tool that ignores its signal is abandoned promptly", async () => {
    const stop = new AbortController();
    const { execute } = await toolboxWorld([aTool({ execute: () => never })]);

    const running = execute("read_file", { path: "a" }, aContext({ abortSignal: stop.signal }));
    stop.abort();
    const { error } = await running;

    expect(error?.type).toBe("interrupted");
  });

  test("a tool receives the signal, and a tool that throws on abort is interrupted", async () => {
    const stop = new AbortController();
    const run = (_: unknown, { abortSignal }: ToolContext) => sleep(60_000, "done", { signal: abortSignal });
    const { execute } = await toolboxWorld([aTool({ execute: run })]);

    const running = execute("read_file", { path: "a" }, aContext({ abortSignal: stop.signal }));
    stop.abort();

    expect((await running).error?.type).toBe("interrupted");
  });

  test("a tool that returns shortly after the abort keeps its partial result", async () => {
    const stop = new AbortController();
    const run = (_: unknown, { abortSignal }: ToolContext) =>
      new Promise((resolve) => abortSignal.addEventListener("abort", () => resolve("half of it")));
    const { execute } = await toolboxWorld([aTool({ execute: run })]);

    const running = execute("read_file", { path: "a" }, aContext({ abortSignal: stop.signal }));
    setImmediate(() => stop.abort());

    expect(await running).toMatchObject({ llmContent: "half of it" });
  });

  test("a deadline is a timeout and not an interruption", async () => {
    const { execute } = await toolboxWorld([aTool({ execute: () => never })]);
    const result = await execute("read_file", { path: "a" }, aContext({ abortSignal: AbortSignal.timeout(1) }));
    expect(result.error).toMatchObject({ code: "TIMEOUT", type: "system_error" });
  });

  test("a failure of an abandoned call is ignored", async () => {
    const stop = new AbortController();
    const { promise, reject } = Promise.withResolvers<never>();
    const { execute } = await toolboxWorld([aTool({ execute: () => promise })]);

    const running = execute("read_file", { path: "a" }, aContext({ abortSignal: stop.signal }));
    stop.abort();
    await running;
    reject(new Error("too late"));

    await expect(promise).rejects.toThrow("too late");
  });
});

describe("failures", () => {
  test.each<[string, unknown, object]>([
    [
      "a ToolError keeps its code and suggestion",
      new ToolError("There is no a.", { code: "FILE_NOT_FOUND", suggestion: "Call list_files." }),
      { code: "FILE_NOT_FOUND", type: "user_error", message: "There is no a.", suggestion: "Call list_files." },
    ],
    [
      "any error is a system error",
      new Error("disk full"),
      { code: "EXECUTION_ERROR", type: "system_error", message: "disk full" },
    ],
    [
      "a file system error keeps its code",
      Object.assign(new Error("gone"), { code: "ENOENT" }),
      { code: "FILE_NOT_FOUND" },
    ],
    [
      "so does a permission error",
      Object.assign(new Error("no"), { code: "EACCES" }),
      { code: "PERMISSION_DENIED", type: "permission_error" },
    ],
    ["so does a timeout", new DOMException("late", "TimeoutError"), { code: "TIMEOUT" }],
    ["a thrown value that is not an error is reported as it is", "oops", { code: "EXECUTION_ERROR", message: "oops" }],
    ["a thrown undefined is still a failure", undefined, { code: "EXECUTION_ERROR" }],
  ])("%s", async (_, thrown, expected) => {
    const fail = () => {
      throw thrown;
    };
    const { execute } = await toolboxWorld([aTool({ execute: fail })]);

    const result = await execute("read_file", { path: "a" });

    expect(result.error).toMatchObject(expected);
    expect(result.llmContent).toContain(`Error: ${result.error?.message}`);
  });

  test("an unknown tool, invalid arguments and a tool without execute give error results", async () => {
    const { execute } = await toolboxWorld([aTool(), { ...aTool({ name: "ask_user" }), execute: undefined } as never]);

    expect((await execute("nothing", {})).error?.code).toBe("UNKNOWN_TOOL");
    expect((await execute("read_file", { path: 5 })).error?.code).toBe("INVALID_ARGUMENTS");
    expect((await execute("ask_user", { path: "a" })).error?.code).toBe("UNAVAILABLE");
  });
});

describe("the output schema", () => {
  const outputSchema = z.object({ sum: z.number() });

  test("output that matches passes, as plain data or as the value of a result", async () => {
    const shaped = { llmContent: "3", value: { kind: "json", data: { sum: 3 } } };
    const { execute } = await toolboxWorld([
      aTool({ name: "plain", outputSchema, execute: () => ({ sum: 3 }) }),
      aTool({ name: "shaped", outputSchema, execute: () => shaped as never }),
    ]);

    expect((await execute("plain", { path: "a" })).value).toEqual({ kind: "json", data: { sum: 3 } });
    expect(await execute("shaped", { path: "a" })).toMatchObject(shaped);
  });

  test("output that does not match is INVALID_OUTPUT, with the member and its types", async () => {
    const { execute } = await toolboxWorld([aTool({ outputSchema, execute: () => ({ sum: "three" }) as never })]);

    const { error } = await execute("read_file", { path: "a" });

    expect(error).toMatchObject({
      code: "INVALID_OUTPUT",
      type: "system_error",
      details: { output: { sum: "three" } },
    });
    expect(error?.message).toContain("parameter 'sum' in the output of read_file: Expected number, got string");
  });

  test("a failure is not checked", async () => {
    const { execute } = await toolboxWorld([aTool({ outputSchema, execute: () => Promise.reject(new Error("no")) })]);
    expect((await execute("read_file", { path: "a" })).error?.code).toBe("EXECUTION_ERROR");
  });

  test("a result that is too long for the model is truncated with a note; people see all of it", async () => {
    const lines = Array.from({ length: 5_000 }, (_, index) => `this is line number ${index}`);
    const { execute } = await toolboxWorld([aTool({ execute: () => lines.join("\n") })], { maxResultTokens: 500 });

    const { llmContent, value } = await execute("read_file", { path: "a" });

    expect(llmContent).toMatch(/^this is line number 0\n.*left out.*this is line number 4999$/s);
    expect(llmContent.length).toBeLessThan(5_000);
    expect(value).toEqual({ kind: "text", content: lines.join("\n") });
  });
});

describe("events", () => {
  async function listenTo(run: (args: unknown, context: ToolContext) => unknown) {
    const events = new ToolEvents();
    const received: unknown[] = [];
    events.subscribe("*", ({ id, type, data }) => received.push({ id, type, ...data }));
    const world = await toolboxWorld([aTool({ execute: run })], { events });
    return { ...world, received };
  }

  test("a call emits its start, its output and its end", async () => {
    const output = vi.fn();
    const { toolbox, received } = await listenTo((_, context) => {
      context.output("half");
      return "whole";
    });

    const result = await toolbox.execute(
      { callId: "c1", tool: "read_file", args: { path: "a" } },
      aContext({ output }),
    );

    expect(received).toEqual([
      { id: "c1", type: "tool_call_start", toolName: "read_file", arguments: { path: "a" } },
      { id: "c1", type: "tool_output_chunk", toolName: "read_file", chunk: "half" },
      {
        id: "c1",
        type: "tool_call_end",
        toolName: "read_file",
        success: true,
        result: expect.objectContaining({ value: result.value }),
      },
    ]);
    expect(output).toHaveBeenCalledWith("half");
  });

  test("a failure is emitted as an error", async () => {
    const { execute, received } = await listenTo(() => Promise.reject(new Error("disk full")));
    await execute("read_file", { path: "a" });
    expect(received.at(-1)).toMatchObject({ type: "error", toolName: "read_file", error: "disk full" });
  });

  test("output after the end of the call is dropped", async () => {
    let late = (_: string) => {};
    const output = vi.fn();
    const { execute, received } = await listenTo((_, context) => {
      late = context.output;
      return "done";
    });
    await execute("read_file", { path: "a" }, aContext({ output }));

    late("too late");

    expect(received).toHaveLength(2);
    expect(output).not.toHaveBeenCalled();
  });
});

test("arguments changed by a person are validated again and reach the tool as its schema parses them", async () => {
  const run = vi.fn(() => "done");
  const inputSchema = z.object({ path: z.string().trim(), depth: z.number().default(2) });
  const { toolbox } = await toolboxWorld([aTool({ inputSchema, execute: run })]);

  await toolbox.execute(aCall("read_file", { path: " b " }), aContext());
  const refused = await toolbox.execute(aCall("read_file", { path: 5 }), aContext());

  expect(run).toHaveBeenCalledExactlyOnceWith(
    { path: "b", depth: 2 },
    expect.objectContaining({ sandbox: expect.anything() }),
  );
  expect(refused.error?.code).toBe("INVALID_ARGUMENTS");
});

describe("sandbox of a call", () => {
  test("the sandbox of a call becomes read-only when the call ends", async () => {
    const workspace = memoryWorkspace();
    let late: Workspace | undefined;
    const keep = (_: unknown, { sandbox }: ToolContext) => {
      late = sandbox;
      return sandbox.write("in-time.txt", "x");
    };
    const { execute } = await toolboxWorld([aTool({ execute: keep })], { workspace });

    await execute("read_file", { path: "a" });

    const changes = [late?.write("late.txt", "x"), late?.remove("in-time.txt"), late?.move("in-time.txt", "moved.txt")];
    for (const outcome of await Promise.allSettled(changes)) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "PERMISSION_DENIED" } });
    }
    expect(await late?.exists("in-time.txt")).toBe(true);
    expect(await workspace.changes()).toEqual([{ path: "in-time.txt", status: "added" }]);
  });

  test("the sandbox of a call becomes read-only when the call is abandoned", async () => {
    const workspace = memoryWorkspace();
    const stop = new AbortController();
    const goOn = Promise.withResolvers<void>();
    const over = Promise.withResolvers<unknown>();
    const deaf = async (_: unknown, { sandbox }: ToolContext) => {
      stop.abort();
      await goOn.promise;
      await sandbox.write("late.txt", "x").catch(over.resolve);
    };
    const { execute } = await toolboxWorld([aTool({ execute: deaf })], { workspace });

    const result = await execute("read_file", { path: "a" }, aContext({ abortSignal: stop.signal }));
    goOn.resolve();

    expect(result.error?.code).toBe("INTERRUPTED");
    expect(await over.promise).toMatchObject({ code: "PERMISSION_DENIED" });
    expect(await workspace.changes()).toEqual([]);
  });

  test("the sandbox of a call is read-only for approval rules and previews", async () => {
    const workspace = memoryWorkspace();
    const sly = async (_: unknown, { sandbox }: ToolContext) => {
      await sandbox.write("sly.txt", "x").catch(() => {});
    };
    const needsApproval = async (args: unknown, context: ToolContext) => sly(args, context).then(() => true);
    const preview = async (args: unknown, context: ToolContext) => sly(args, context).then(() => "nothing");
    const { review } = await toolboxWorld([aTool({ needsApproval, preview })], { workspace });

    expect(await review("read_file", { path: "a" })).toMatchObject({
      kind: "ask",
      preview: { sections: [{ text: "nothing" }] },
    });
    expect(await workspace.changes()).toEqual([]);
  });
});

test.each<[string, unknown]>([
  ["a text", { kind: "text", content: "x".repeat(5_000_000) }],
  ["a file", { kind: "file_content", path: "a", size: 5_000_000, content: "x".repeat(5_000_000) }],
  [
    "a diff",
    { kind: "diff", path: "a", isNew: false, bytesWritten: 9, original: "x".repeat(3e6), modified: "y".repeat(3e6) },
  ],
  ["a list", { kind: "file_list", path: "/", count: 1e5, files: Array.from({ length: 1e5 }, (_, n) => `file-${n}`) }],
  ["data", { kind: "json", data: { rows: Array.from({ length: 1e5 }, (_, n) => ({ n, text: "some words" })) } }],
])("%s that is too long to be stored is shortened and keeps its kind", async (_, value) => {
  const { execute } = await toolboxWorld([aTool({ execute: () => value as never })]);

  const result = await execute("read_file", { path: "a" });

  expect(result.value.kind).toBe((value as { kind: string }).kind);
  expect(JSON.stringify(result.value).length).toBeLessThanOrEqual(400_000);
});

test("a value that cannot be shortened is replaced by its size", async () => {
  const data = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`key-${n}`, n]));
  const { execute } = await toolboxWorld([aTool({ execute: () => ({ kind: "json", data }) as never })]);

  expect((await execute("read_file", { path: "a" })).value).toEqual({
    kind: "text",
    content: expect.stringMatching(/^The result is too large to be stored: [\d,]+ characters\.$/),
  });
});
