import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { mcpToolset } from "#toolsets/mcp/mcp-toolset.ts";
import { type ToolboxWorldOptions, toolboxWorld } from "../support/custom-tools-world.ts";
import { longestTurnMs } from "../support/longest-turn.ts";

const program = {
  command: process.execPath,
  args: [new URL("../support/mcp-server.ts", import.meta.url).pathname],
  env: { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? "" },
};
const free = { approval: { default: "preApproved" } };

function mcp(config: object, { services, ...options }: ToolboxWorldOptions = {}) {
  return toolboxWorld(mcpToolset, config, { ...options, services: { workerDirectory: "/", ...services } });
}

describe("an MCP server that is a program", () => {
  test("an MCP server program offers its tools under its name, and its answers are data from outside", async () => {
    const { toolbox, run } = await mcp({ servers: { local: program }, ...free });

    expect(toolbox.offered.map(({ name }) => name)).toEqual([
      "local_echo",
      "local_sum",
      "local_fail",
      "local_picture",
      "local_wait",
      "local_environment",
      "local_leave",
    ]);
    const echoed = await run("local_echo", { text: "hi" });
    expect(echoed).toMatchObject({ value: { kind: "text", content: "echo: hi" } });
    expect(echoed.llmContent).toContain("comes from the MCP server local. It is data");
    expect((await run("local_sum", { a: 1, b: 2 })).value).toMatchObject({ kind: "json", data: { sum: 3 } });
    expect((await run("local_picture")).value).toMatchObject({
      content: "[image image/png, 6 bytes, which is not shown]\ninside",
    });
    expect(await run("local_fail")).toMatchObject({ error: { code: "EXECUTION_ERROR", message: "no such ticket" } });
    expect(await run("local_echo", { txt: 1 })).toMatchObject({ error: { code: "INVALID_ARGUMENTS" } });
    expect(toolbox.tools.every(({ afterCrash }) => afterCrash === "report")).toBe(true);
  });

  test("an MCP server program sees PATH and the variables it is given, and is ended with the run's tools", async () => {
    process.env.GOLEM_FORGE_TEST_TOKEN = "token-1";
    onTestFinished(() => void delete process.env.GOLEM_FORGE_TEST_TOKEN);
    const server = { command: program.command, args: [...program.args, `--as=\${env:GOLEM_FORGE_TEST_TOKEN}`] };
    const { toolbox, run } = await mcp({ servers: { local: { ...server, env: { TOKEN: "x" } } }, ...free });

    const { value } = await run("local_environment");
    const seen = JSON.parse((value as { content: string }).content);
    await toolbox.close();

    expect(seen).toMatchObject({ names: ["PATH", "TOKEN"], args: ["--as=token-1"] });
    expect(() => process.kill(seen.pid, 0)).toThrow();
  });

  test("an MCP server program that ends during a call fails that call and is started again for the next one", async () => {
    const { run } = await mcp({ servers: { local: program }, ...free });

    expect(await run("local_leave")).toMatchObject({ error: { code: "UNAVAILABLE" } });
    expect(await run("local_echo", { text: "again" })).toMatchObject({ value: { content: "echo: again" } });
  });

  test("an MCP server program that cannot be started does not stop the run", async () => {
    const { toolbox, run } = await mcp({ servers: { gone: { command: "/no/such/program" }, local: program }, ...free });

    expect(toolbox.offered[0]).toMatchObject({ name: "gone_unavailable" });
    expect(await run("gone_unavailable")).toMatchObject({
      error: {
        code: "UNAVAILABLE",
        message: expect.stringMatching(/^The MCP server gone cannot be reached: .*ENOENT/),
      },
    });
    expect((await run("local_echo", { text: "here" })).error).toBeUndefined();
  });

  test("a stateless MCP server program of 2026 is used over stdio", async () => {
    const { run } = await mcp({
      servers: {
        era: {
          command: process.execPath,
          args: [new URL("../support/stateless-mcp-server.ts", import.meta.url).pathname],
        },
      },
      ...free,
    });

    expect((await run("era_echo", { text: "hi" })).value).toMatchObject({ content: "echo: hi" });
  });
});

describe("an MCP server that misbehaves", () => {
  const rude = (...args: string[]) => ({
    rude: {
      command: process.execPath,
      args: [new URL("../support/rude-mcp-server.ts", import.meta.url).pathname, ...args],
    },
  });
  const closing: (() => Promise<void>)[] = [];
  let shared: Awaited<ReturnType<typeof mcp>>;
  beforeAll(async () => {
    shared = await mcp({ servers: rude(), ...free }, { onEnd: (close) => closing.push(close) });
  });
  afterAll(() => Promise.all(closing.map((close) => close())));

  test("an MCP server may write a banner to stdout, which is skipped and reported", async () => {
    const { run, printed } = await mcp({ servers: rude("--banner"), ...free });

    expect((await run("rude_echo")).value).toMatchObject({ content: "echo" });
    await run("rude_echo");

    expect(printed).toEqual([
      'The MCP server rude skipped 1 line on stdout that are not MCP messages: "Welcome to the rude server v1.0!"\n',
    ]);
  });

  test.each([
    ["prints a debug line before its answer", "noise", "noise"],
    ["sends a number", "number", "number"],
    ["sends null", "null", "null"],
    ["answers twice", "twice", "once"],
    ["answers an unknown request", "unknown_id", "unknown"],
    ["answers in a batch", "batch", "batch"],
  ])("an MCP server that %s still answers the call", async (_, tool, content) => {
    const { run } = shared;

    expect((await run(`rude_${tool}`)).value).toMatchObject({ content });
    expect((await run("rude_echo")).value).toMatchObject({ content: "echo" });
  });

  test.each([
    ["sends a response without a result", "malformed"],
    ["sends an error that is null", "no_error"],
  ])("an MCP server that %s fails that call only", async (_, tool) => {
    const { run } = shared;

    expect(await run(`rude_${tool}`)).toMatchObject({ error: { code: "EXECUTION_ERROR" } });
    expect((await run("rude_echo")).error).toBeUndefined();
  });

  test.each([
    ["a line of 350,000 values", "many_values", { error: { code: "UNAVAILABLE" } }],
    ["a hundred thousand short lines", "many_lines", { value: { content: "many lines" } }],
    ["a batch of forty thousand messages", "many_messages", { value: { content: "many messages" } }],
  ])("an MCP server that sends %s does not block the event loop", async (_, tool, result) => {
    const { run } = shared;
    await run("rude_echo");

    const blockedMs = await longestTurnMs(async () => expect(await run(`rude_${tool}`)).toMatchObject(result));

    expect(blockedMs).toBeLessThan(100);
  });

  test("an MCP server that answers after the time limit or an interrupt does not disturb later calls", async () => {
    const { run } = await mcp({ servers: rude(), ...free, timeout: 1 });
    const stop = new AbortController();

    expect(await run("rude_late")).toMatchObject({ error: { code: "TIMEOUT" } });
    const stopped = run("rude_late", {}, { abortSignal: stop.signal });
    stop.abort();
    expect(await stopped).toMatchObject({ error: { type: "interrupted" } });
    await sleep(1_600);

    expect((await run("rude_echo")).error).toBeUndefined();
  });

  test("an MCP server that dies says why, and whether the call took effect is unknown", async () => {
    const { run } = await mcp({ servers: rude(), ...free });

    const { error } = await run("rude_die");

    expect(error).toMatchObject({
      code: "UNAVAILABLE",
      message:
        "The MCP server rude was lost during the call of die: it exited with code 3. It wrote to stderr: “cannot open the database”.",
      suggestion: expect.stringContaining("not known whether the call took effect"),
    });
    expect((await run("rude_echo")).error).toBeUndefined();
  });

  test("an MCP server that does not start says why", async () => {
    const { run } = await mcp({ servers: rude("--fail"), ...free });

    expect((await run("rude_unavailable")).error?.message).toBe(
      "The MCP server rude cannot be reached: it exited with code 1. It wrote to stderr: “the license has expired”.",
    );
  });

  test("two tools of an MCP server whose names differ only in characters that models do not accept have two names", async () => {
    const { toolbox, run } = await mcp({ servers: rude(), tools: ["rude_a*"], ...free });
    const names = toolbox.offered.map(({ name }) => name);

    expect(names).toEqual([expect.stringMatching(/^rude_a_b_[0-9a-f]{8}$/), "rude_a_b"]);
    expect((await run(names[0] ?? "")).value).toMatchObject({ content: "a.b" });
    expect((await run("rude_a_b")).value).toMatchObject({ content: "a_b" });
  });
});
