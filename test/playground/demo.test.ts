import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parseDemoOptions } from "#playground/demo/demo-options.ts";

const script = fileURLToPath(new URL("../../playground/demo.ts", import.meta.url));

function demo(...args: string[]) {
  const child = spawn(process.execPath, [script, ...args], { env: { PATH: process.env.PATH } });
  let output = "";
  const heard = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output += chunk;
      if (output.includes("Ctrl+C")) heard.resolve();
    });
  }
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  return { child, ended, opened: heard.promise, output: () => output };
}

test("the story plays from the issue to the pull request and ends well", { timeout: 90_000 }, async () => {
  const { ended, output } = demo("--story");

  const code = await ended;

  expect(output()).toMatch(/a scripted model answers/);
  expect(output()).toMatch(/\/run fixer[\s\S]*asks for approval[\s\S]*\/approve/);
  expect(output()).toMatch(/Pull request #2: [\s\S]*\n\+ {2}return Math\.max\(1, Math\.ceil\(total \/ perPage\)\);/);
  expect(code).toBe(0);
});

test("the demo says where to look, and a signal stops it all", { timeout: 60_000 }, async () => {
  const { child, ended, opened, output } = demo("--port", "0");
  await opened;
  const [, url = ""] = /Open\s+(http\S+)/.exec(output()) ?? [];
  const page = await fetch(url);

  child.kill("SIGTERM");

  expect(page.status).toBe(200);
  expect(await ended).toBe(0);
  await expect(fetch(url)).rejects.toThrow();
});

test("a port that is taken is said in a sentence", { timeout: 60_000 }, async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => other.once("listening", resolve));
  const { port } = other.address() as AddressInfo;

  const { ended, output } = demo("--port", String(port));
  const code = await ended;
  other.close();

  expect(output().trim()).toBe(`Port ${port} is in use already. Choose another with --port.`);
  expect(code).toBe(1);
});

test.each([
  [["--storry"], "There is no option --storry. Did you mean --story?"],
  [["story"], 'The demo does not know what to do with "story". Try --help.'],
  [["--port", "many"], "--port takes a number from 0 to 65535, such as --port 4000."],
  [["--port"], "--port takes a number from 0 to 65535, such as --port 4000."],
  [["--model", "gpt"], "--model takes provider:model, such as --model anthropic:claude-haiku-4-5."],
])("%j is refused with a sentence", (args, message) => {
  expect(() => parseDemoOptions(args)).toThrow(message);
});

test.each([
  [["--port", "4100", "--story"], { port: 4100, story: true, model: undefined, help: false }],
  [["--model=openai:gpt-5", "-h"], { port: undefined, story: false, model: "openai:gpt-5", help: true }],
])("%j is understood", (args, options) => {
  expect(parseDemoOptions(args)).toEqual(options);
});
