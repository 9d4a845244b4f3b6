import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ChildEnded, startGuardedChild } from "#executors/guarded-child.ts";

// A guarded child reads nothing but this program's modules, so code that plays the intruder has to lie among them.
const folder = `${process.cwd()}/node_modules/.golem-test-${process.pid}`;
const serve = pathToFileURL(`${process.cwd()}/src/executors/serve-parent.ts`).href;

const intruder = `
import { serveParent } from ${JSON.stringify(serve)};
const tried = async (what) => { try { return String(await what()); } catch (error) { return error.code ?? error.message; } };
const connect = (port) => new Promise((resolve, reject) => import("node:net").then((net) => net.connect(port, "127.0.0.1", () => resolve("connected")).on("error", reject)).catch(reject));
serveParent(async (request, ask) => {
  if (request === "loop") while (true);
  if (request === "flood") return "x".repeat(2_000_000);
  if (request === "ask") return "heard " + (await ask("something"));
  if (request === "die") process.exit(3);
  const fs = await import("node:fs");
  return {
    read: await tried(() => fs.readFileSync("/etc/passwd")),
    settings: await tried(() => fs.readFileSync("/proc/self/environ")),
    write: await tried(() => fs.writeFileSync("/tmp/golem-intruder", "x")),
    spawn: await tried(async () => (await import("node:child_process")).spawnSync("id")),
    worker: await tried(async () => new (await import("node:worker_threads")).Worker("1", { eval: true })),
    addon: await tried(() => process.dlopen({ exports: {} }, "/usr/lib/x.node")),
    connect: await tried(() => connect(request.port)),
    environment: JSON.stringify(process.env),
  };
});
`;

beforeAll(() => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/intruder.mjs`, intruder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const start = () =>
  startGuardedChild({ entry: pathToFileURL(`${folder}/intruder.mjs`), memoryMb: 128, messageBytes: 1_000_000 });

test("whoever takes over a child still reaches nothing", async () => {
  process.env.GOLEM_CANARY = "canary-value";
  let reached = false;
  const server = createServer(() => {
    reached = true;
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  const child = start();

  const report = await child.call({ port }, { killAfterMs: 10_000 });

  expect(report).toEqual({
    read: "ERR_ACCESS_DENIED",
    settings: "ERR_ACCESS_DENIED",
    write: "ERR_ACCESS_DENIED",
    spawn: "ERR_ACCESS_DENIED",
    worker: "ERR_ACCESS_DENIED",
    addon: "ERR_DLOPEN_DISABLED",
    connect: "ERR_ACCESS_DENIED",
    environment: "{}",
  });
  expect(reached).toBe(false);
  child.kill();
  server.close();
});

test("a child is killed at its deadline, when it says too much, and when it is interrupted", async () => {
  const stop = new AbortController();
  const interrupted = start();
  const running = interrupted.call("loop", { killAfterMs: 30_000, signal: stop.signal });
  stop.abort();

  await expect(running).rejects.toMatchObject({ code: "INTERRUPTED" });
  for (const [request, how] of [
    ["loop", "deadline"],
    ["flood", "died"],
    ["die", "died"],
  ] as const) {
    const child = start();
    await child.ready;
    const ended = await child.call(request, { killAfterMs: 400 }).catch((error: Error) => error);
    expect(ended).toBeInstanceOf(ChildEnded);
    expect(ended).toMatchObject({ how });
    expect(child.alive).toBe(false);
    await expect(child.call("ask", { killAfterMs: 100 })).rejects.toBeInstanceOf(ChildEnded);
  }
});

test("a child may ask back, and hears when there is no answer", async () => {
  const child = start();

  expect(await child.call("ask", { killAfterMs: 10_000, answer: async (question) => `answer to ${question}` })).toBe(
    "heard answer to something",
  );
  await expect(
    child.call("ask", { killAfterMs: 10_000, answer: () => Promise.reject(new Error("not known")) }),
  ).rejects.toThrow("not known");
  child.kill();
});
