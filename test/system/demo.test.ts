import { execFile, spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const script = fileURLToPath(new URL("../../playground/demo.ts", import.meta.url));

function startDemo(args: string[], environment: Record<string, string | undefined> = {}) {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [script, ...args], { env: { PATH, NODE_COMPILE_CACHE, ...environment } });
  let output = "";
  const opened = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output += chunk;
      if (output.includes("Ctrl+C")) opened.resolve();
    });
  }
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  return { child, ended, opened: opened.promise, output: () => output };
}

test("--story plays from the issue through CI and a review to the merge", async () => {
  const { ended, output } = startDemo(["--story"]);

  const code = await ended;

  expect(output()).toMatch(/a scripted model answers/);
  expect(output()).toMatch(/\/run fixer[\s\S]*asks for approval[\s\S]*\/approve/);
  expect(output()).toMatch(/Pull request #2: [\s\S]*CI fails[\s\S]*CI passes[\s\S]*maintainer requests changes/);
  expect(output()).toMatch(/The comment now says this\.\s+Done in [0-9a-f]{40}\.[\s\S]*was merged by/);
  expect(output()).toMatch(/The merged change[\s\S]*\n\+ {2}return Math\.max\(1, Math\.ceil\(total \/ perPage\)\);/);
  expect(code).toBe(0);
});

test("the printed addresses work, a killed app is restarted, and a signal stops everything", {
  timeout: 300_000,
}, async () => {
  const { child, ended, opened, output } = startDemo(["--port", "0"]);
  await opened;
  const [, url = ""] = /Open\s+(http\S+)/.exec(output()) ?? [];
  const [, clone = ""] = /git clone (http\S+)/.exec(output()) ?? [];
  const [, pid = ""] = /kill -9 (\d+)/.exec(output()) ?? [];
  const notice = async () => {
    const world = await fetch(new URL("/-/world", url));
    return ((await world.json()) as { notice: string }).notice;
  };

  const page = await fetch(url);
  const cloned = await promisify(execFile)("git", ["ls-remote", clone, "main"]);
  process.kill(Number(pid), "SIGKILL");
  await expect.poll(notice).toMatch(/ended by SIGKILL.*has been restarted. No work was lost/);
  child.kill("SIGTERM");

  expect(page.status).toBe(200);
  expect(cloned.stdout).toMatch(/^[0-9a-f]{40}\trefs\/heads\/main$/m);
  expect(await ended).toBe(0);
  await expect(fetch(url)).rejects.toThrow();
});

test("a port in use is reported in a sentence", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => other.once("listening", resolve));
  const { port } = other.address() as AddressInfo;

  const { ended, output } = startDemo(["--port", String(port)]);
  const code = await ended;
  other.close();

  expect(output().trim()).toBe(`Port ${port} is already in use. Choose another one with --port.`);
  expect(code).toBe(1);
});

test("a missing git is reported in a sentence", async () => {
  const { ended, output } = startDemo([], { PATH: "/nonexistent" });

  const code = await ended;

  expect(output().trim()).toBe("The demo needs git, which is not installed or not in your PATH.");
  expect(code).toBe(1);
});
