import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { requireRun, type Store } from "#runtime/store/store.ts";

const script = fileURLToPath(new URL("../support/store-crash-child.ts", import.meta.url));
const kills = process.env.CRASH_SWEEP === "all" ? 40 : 5;

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "golem-store-"));
  path = join(folder, "data", "golem-forge.db");
});
afterEach(() => rm(folder, { recursive: true, force: true }));

function startChild(first: number): { child: ChildProcess; lines: AsyncIterable<string> } {
  const child = spawn(process.execPath, [script, path, String(first)], { stdio: ["ignore", "pipe", "inherit"] });
  return { child, lines: createInterface({ input: child.stdout }) };
}

/** Kills the process right after it has printed this many lines, and returns everything it has printed. */
async function runUntilKilled(first: number, linesBeforeKill: number): Promise<string[]> {
  const { child, lines } = startChild(first);
  const exited = once(child, "exit");
  const said: string[] = [];
  for await (const line of lines) {
    said.push(line);
    if (said.length === linesBeforeKill) child.kill("SIGKILL");
  }
  expect(await exited).toEqual([null, "SIGKILL"]);
  return said;
}

async function progressOf(store: Store, n: number) {
  const runId = `run-${n}`;
  const parts = {
    result: (await store.log(runId)).filter(({ event }) => "text" in event && event.text === `result ${n}`).length,
    changes: (await store.changesOf(runId)).length,
    approval: (await store.approvalsOf(runId)).length,
    post: (await store.findPost(`post-${n}`)) ? 1 : 0,
    child: (await store.childrenOf(runId)).length,
  };
  return { version: (await requireRun(store, runId)).version, parts: Object.values(parts) };
}

test("kill -9 at any moment loses nothing that was acknowledged and leaves nothing incomplete", async () => {
  const acknowledged = new Map<number, Set<string>>();
  let first = 0;

  for (let kill = 0; kill < kills; kill++) {
    const linesBeforeKill = 1 + Math.floor(Math.random() * 120);
    for (const line of await runUntilKilled(first, linesBeforeKill)) {
      const [what = "", n] = line.split(" ");
      if (n) acknowledged.set(Number(n), (acknowledged.get(Number(n)) ?? new Set()).add(what));
    }

    const store = await openSqliteStore(path);
    const log = (await store.findRun("log")) ? await store.log("log") : [];
    const written = log.map(({ event }) => Number("text" in event && event.text));
    const context = `kill ${kill + 1} after ${linesBeforeKill} lines`;

    expect(new Set(written).size, context).toBe(written.length);
    expect(log.map(({ id }) => id)).toEqual(log.map(({ id }) => id).sort((a, b) => a - b));
    for (const n of acknowledged.keys()) expect(written, context).toContain(n);
    for (const n of written.filter((number) => number >= first)) {
      const acks = acknowledged.get(n) ?? new Set();
      const { version, parts } = await progressOf(store, n);

      expect([0, 1], context).toContain(version);
      if (acks.has("advanced")) expect(version, context).toBe(1);
      expect([[0, 0, 0, 0, 0].join(), [1, 1, 1, 1, 1].join()], context).toContain(parts.join());
      if (acks.has("finished")) expect(parts, context).toEqual([1, 1, 1, 1, 1]);
      if (acks.has("begun") && parts[0] === 0) {
        expect(await store.claimEffect(`run-${n}`, "work", 0)).toMatchObject({ key: `effect-${n}`, attempts: 2 });
      }
      expect(await store.ingest({ deliveryId: `delivery-${n}`, events: [] }), context).toBe(false);
    }
    await store.close();
    first = Math.max(-1, ...written) + 1;
  }

  expect(acknowledged.size).toBeGreaterThan(20);
  const database = new DatabaseSync(path);
  expect(database.prepare("pragma integrity_check").get()).toEqual({ integrity_check: "ok" });
  expect(database.prepare("pragma foreign_key_check").all()).toEqual([]);
  database.close();
});

test("a second process is refused while the first one lives, and not after it was killed", async () => {
  const { child, lines } = startChild(0);
  for await (const line of lines) if (line === "open") break;

  const refused = openSqliteStore(path);
  await expect(refused).rejects.toThrow(UserError);
  await expect(refused).rejects.toThrow("is in use by another Golem Forge process");

  child.kill("SIGKILL");
  await once(child, "exit");
  const store = await openSqliteStore(path);
  await store.ping();
  await store.close();
});
