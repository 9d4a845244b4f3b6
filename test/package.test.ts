import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const run = promisify(execFile);
// Below this checkout's packages, so that the dependencies are found as npm would have installed them.
const folder = mkdtempSync(resolve("node_modules/.installed-"));
const installed = join(folder, "node_modules/golem-forge");

beforeAll(async () => {
  await run(process.execPath, ["scripts/build.ts"]);
  const { stdout } = await run("npm", ["pack", join(process.cwd(), "dist"), "--silent"], { cwd: folder });
  mkdirSync(installed, { recursive: true });
  await run("tar", ["-xzf", join(folder, stdout.trim()), "-C", installed, "--strip-components=1"]);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
}, 60_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the npm package", () => {
  test("runs its command", async () => {
    const { stdout } = await run(process.execPath, [join(installed, "src/terminal/launch-golem.js"), "workers"], {
      cwd: folder,
    });

    expect(stdout).toMatch(/^fixer /m);
  });

  test("runs a worker in a program, tools in guarded processes included", async () => {
    writeFileSync(join(folder, "program.js"), program);

    const { stdout } = await run(process.execPath, ["program.js"], { cwd: folder });

    expect(JSON.parse(stdout)).toEqual({ success: true, response: "It printed 42." });
  });

  test("type-checks in a strict program that also checks libraries", async () => {
    writeFileSync(join(folder, "program.ts"), typed);
    writeFileSync(join(folder, "tsconfig.json"), tsconfig);

    const { stdout } = await run("node_modules/.bin/tsc", ["-p", folder]).catch((error) => error);

    expect(stdout).toBe("");
  });
});

const program = `
import { WorkerRuntime } from "golem-forge";

const answer = (text, calls) => ({
  text, calls, searches: [], cost: undefined, usage: { inputTokens: 1, outputTokens: 1 }, finishReason: "stop",
  messages: [{ role: "assistant", content: [...(text ? [{ type: "text", text }] : []), ...calls.map(({ callId, tool, args }) =>
    ({ type: "tool-call", toolCallId: callId, toolName: tool, input: args }))] }],
});
const models = {
  defaultModel: "scripted:model",
  findModelProblem: () => undefined,
  findToolProblem: () => undefined,
  call: async ({ messages }) => {
    const told = JSON.stringify(messages.at(-1));
    if (messages.length === 1) return answer("", [{ callId: "a", tool: "shell", args: { command: "echo 42" } }]);
    return answer(told.includes("42") ? "It printed 42." : told, []);
  },
};
const runtime = new WorkerRuntime({
  worker: { name: "helper", instructions: "You help.", toolsets: { shell: { default: { approval: "preApproved" } } } },
  models,
});
await runtime.initialize();
const { success, response } = await runtime.run("Print 42.");
await runtime.dispose();
console.log(JSON.stringify({ success, response }));
`;

const typed = `
import { type NamedTool, WorkerRuntime } from "golem-forge";
import { z } from "zod";

const tool: NamedTool = { name: "greet", description: "Greets", inputSchema: z.object({}), execute: async () => "hello" };
export const runtime = new WorkerRuntime({ worker: { name: "helper", instructions: "You help." }, tools: [tool] });
`;

const tsconfig = JSON.stringify({
  compilerOptions: {
    strict: true,
    module: "nodenext",
    target: "esnext",
    noEmit: true,
    skipLibCheck: false,
    types: ["node"],
  },
  files: ["program.ts"],
});
