import { EventEmitter } from "node:events";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { readFrames, writeFrame } from "#executors/frames.ts";
import { ChildEndedError, GuardedChild } from "#executors/guarded-child.ts";
import { anyText } from "../support/hostile-text.ts";
import { propertyRuns } from "../support/property-runs.ts";

// A guarded child can read only this program's modules, so the attacking code has to be in the same folder.
const folder = `${process.cwd()}/node_modules/.golem-test-${process.pid}`;
const database = `${tmpdir()}/golem-intruder-${process.pid}.db`;

const intruder = `
import real from "node:process";
const tried = async (what) => { try { return String(await what()); } catch (error) { return error.code ?? error.message; } };
const connect = (port) => new Promise((resolve, reject) => import("node:net").then((net) => net.connect(port, "127.0.0.1", () => resolve("connected")).on("error", reject)).catch(reject));
export default { handle: async (request, { ask }) => {
  if (request === "loop") while (true);
  if (request === "flood") return "x".repeat(2_000_000);
  if (request === "ask") return "received " + (await ask("something"));
  if (request === "die") real.exit(3);
  if (request === "eat") for (const held = []; ; ) held.push(new Array(100_000).fill(held.length + 0.5));
  if (request === "print") console.log("no frame");
  if (request === "nag") for (let i = 0; i < 1_000; i++) ask("something").catch(() => {});
  if (request === "nag") await new Promise(() => {});
  if (request.frame) {
    const [json, beside] = request.frame;
    const header = Buffer.alloc(8);
    header.writeUInt32BE(json.length + beside, 0);
    header.writeUInt32BE(json.length, 4);
    real.stdout.write(Buffer.concat([header, Buffer.from(json), Buffer.alloc(beside, 120)]));
    await new Promise(() => {});
  }
  const fs = await import("node:fs");
  return {
    read: await tried(() => fs.readFileSync("/etc/passwd")),
    settings: await tried(() => fs.readFileSync("/proc/self/environ")),
    write: await tried(() => fs.writeFileSync("/tmp/golem-intruder", "x")),
    spawn: await tried(async () => (await import("node:child_process")).spawnSync("id")),
    worker: await tried(async () => new (await import("node:worker_threads")).Worker("1", { eval: true })),
    addon: await tried(() => real.dlopen({ exports: {} }, "/usr/lib/x.node")),
    database: await tried(async () => new (await import("node:sqlite")).DatabaseSync(${JSON.stringify(database)}).exec("create table t(a)")),
    builtin: await tried(() => real.getBuiltinModule("node:sqlite")),
    binding: await tried(() => real.binding("fs")),
    signal: await tried(() => real.kill(request.parent, 0)),
    debugger: await tried(() => real._debugProcess(request.parent)),
    priority: await tried(async () => (await import("node:os")).setPriority(request.parent, 19)),
    flags: await tried(async () => (await import("node:v8")).setFlagsFromString("--prof")),
    snapshot: await tried(async () => (await import("node:v8")).setHeapSnapshotNearHeapLimit(1)),
    engine: await tried(async () => (await import("node:crypto")).setEngine("/usr/lib/x.so")),
    inspector: await tried(async () => (await import("node:inspector")).open(0)),
    user: await tried(() => real.setuid(0)),
    loader: await tried(async () => (await import("node:module")).registerHooks({})),
    required: await tried(async () => (await import("node:module")).createRequire(import.meta.url)("node:sqlite")),
    elsewhere: await tried(() => new Function("return import('node:sqlite')")()),
    connect: await tried(() => connect(request.port)),
    environment: JSON.stringify(process.env),
  };
} };
`;

beforeAll(() => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/intruder.mjs`, intruder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const start = () =>
  new GuardedChild({
    handler: pathToFileURL(`${folder}/intruder.mjs`),
    memoryMb: 128,
    messageBytes: 1_000_000,
    cpuSeconds: 60,
  });

test("an attacker who controls a child process cannot reach anything outside it", async () => {
  process.env.GOLEM_CANARY = "canary-value";
  let reached = false;
  const server = createServer(() => {
    reached = true;
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  const child = start();

  const report = await child.call({ port, parent: process.pid }, { killAfterMs: 10_000 });

  const gone = expect.stringContaining("is not a function");
  const closed = expect.stringContaining("cannot be imported here");
  expect(report).toEqual({
    read: "ERR_ACCESS_DENIED",
    settings: "ERR_ACCESS_DENIED",
    write: "ERR_ACCESS_DENIED",
    spawn: "ERR_ACCESS_DENIED",
    worker: "ERR_ACCESS_DENIED",
    addon: gone,
    database: closed,
    builtin: gone,
    binding: gone,
    signal: gone,
    debugger: gone,
    priority: gone,
    flags: gone,
    snapshot: gone,
    engine: gone,
    inspector: closed,
    user: gone,
    loader: gone,
    required: closed,
    elsewhere: closed,
    connect: "ERR_ACCESS_DENIED",
    environment: "{}",
  });
  expect(reached).toBe(false);
  expect(existsSync(database)).toBe(false);
  child.kill();
  server.close();
});

test("a child is killed at its deadline, when it sends too much, and when it is interrupted", async () => {
  const stop = new AbortController();
  const interrupted = start();
  const running = interrupted.call("loop", { killAfterMs: 30_000, signal: stop.signal });
  stop.abort();

  await expect(running).rejects.toMatchObject({ code: "INTERRUPTED" });
  for (const [request, reason] of [
    ["loop", "deadline"],
    ["flood", "died"],
    ["die", "died"],
    ["eat", "died"],
    ["nag", "died"],
  ] as const) {
    const child = start();
    const answer = () => new Promise(() => {});
    const ended = await child
      .call(request, { killAfterMs: request === "eat" ? 20_000 : 1_000, answer })
      .catch((error: Error) => error);
    expect(ended).toBeInstanceOf(ChildEndedError);
    expect(ended).toMatchObject({ reason });
    expect(child.alive).toBe(false);
    await expect(child.call("ask", { killAfterMs: 100 })).rejects.toBeInstanceOf(ChildEndedError);
  }
});

test("the time that a child takes to start is not part of its first call", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const child = start();

  const answer = child.call("ask", { killAfterMs: 10_000, answer: async () => "this" });
  vi.advanceTimersByTime(20_000);
  vi.useRealTimers();

  expect(await answer).toBe("received this");
  child.kill();
});

test("a child may send requests to its parent, and gets an error when there is no answer", async () => {
  const child = start();

  expect(await child.call("ask", { killAfterMs: 10_000, answer: async (question) => `answer to ${question}` })).toBe(
    "received answer to something",
  );
  await expect(
    child.call("ask", { killAfterMs: 10_000, answer: () => Promise.reject(new Error("not known")) }),
  ).rejects.toThrow("not known");
  child.kill();
});

test("output that a child prints is not taken for a message", async () => {
  const child = start();

  expect(await child.call("print", { killAfterMs: 10_000 })).toMatchObject({ environment: "{}" });
  child.kill();
});

test.each<[string, [json: string, beside: number]]>([
  ["a list with holes", ['{"done":1,"result":{"length":4294967295}}', 0]],
  ["no JSON", ['{"done":1,"resu', 0]],
  ["nesting without end", ['{"done":1,"result":'.padEnd(400_000, "["), 0]],
  ["350,000 values", [`{"done":1,"result":[${Array(350_000).fill("[]")}]}`, 0]],
  ["bytes beside the frame", ['{"done":1,"result":{"$bytes":[0,11]}}', 10]],
  ["bytes before the frame", ['{"done":1,"result":{"$bytes":[-8,4]}}', 10]],
  ["one text a thousand times", [`{"done":1,"result":[${Array(1_000).fill('{"$text":[0,500000]}')}]}`, 500_000]],
])("a message with %s does no harm", async (_, frame) => {
  const child = start();

  const answer = await child.call({ frame }, { killAfterMs: 10_000 }).catch((error: Error) => error);

  if (answer instanceof ChildEndedError) expect(answer.reason).toBe("died");
  else expect(JSON.stringify(answer).length).toBeLessThan(1_000);
  child.kill();
});

test("any message arrives unchanged, exactly once", () => {
  const plain = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      anyText({ maxLength: 3_000 }).map((text) => text.toWellFormed()),
      fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 4 }),
      fc.dictionary(
        fc.string({ maxLength: 5 }).filter((key) => !/^\$|^__proto__$/.test(key)),
        tie("value"),
        { maxKeys: 4, noNullPrototype: true },
      ),
    ),
  })).value;
  const limits = { maxBytes: 10_000_000, maxJsonBytes: 10_000_000, maxValues: 100_000 };

  fc.assert(
    fc.property(fc.array(plain, { maxLength: 4 }), fc.integer({ min: 1, max: 5_000 }), (values, pieceBytes) => {
      const written: Buffer[] = [];
      const received: unknown[] = [];
      const source = new EventEmitter();
      for (const value of values) writeFrame({ write: (part: Buffer) => written.push(part) } as never, value);
      readFrames(source as never, {
        ...limits,
        onFrame: (value) => received.push(value),
        onFailure: (error) => received.push(error),
      });
      const all = Buffer.concat(written);
      for (let at = 0; at < all.length; at += pieceBytes) source.emit("data", all.subarray(at, at + pieceBytes));

      expect(received).toEqual(values);
    }),
    { numRuns: propertyRuns(200) },
  );
});
