import { writeSync } from "node:fs";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { said, sampleApproval, sampleEffect, sampleRun, sampleStep } from "./store-samples.ts";

// A process for tests to kill: it keeps writing several chains at a time, and prints a line after each commit.

const [path = "", first = "0"] = process.argv.slice(2);
const say = (line: string) => writeSync(1, `${line}\n`);

say("opening");
const store = await openSqliteStore(path);
say("open");

await store.ingest({ run: sampleRun("log"), events: [] });
await Promise.all(Array.from({ length: 6 }, (_, lane) => work(Number(first) + lane)));

async function work(start: number): Promise<void> {
  for (let n = start; ; n += 6) await chain(n);
}

async function chain(n: number): Promise<void> {
  const runId = `run-${n}`;
  await store.ingest({
    deliveryId: `delivery-${n}`,
    run: sampleRun(runId, [sampleEffect(runId, `effect-${n}`)]),
    events: [
      { runId, event: said(`task ${n}`) },
      { runId: "log", event: said(`${n}`) },
    ],
  });
  say(`ingested ${n}`);

  const consumed = (await store.inbox(runId)).map(({ id }) => id);
  await store.advance(
    sampleStep(runId, { consumed, seen: consumed[0] ?? 0, effects: [sampleEffect(runId, `next-${n}`)] }),
  );
  say(`advanced ${n}`);

  await store.claimEffect(runId, "work", 0);
  say(`begun ${n}`);

  const content = new TextEncoder().encode(`content ${n} `.repeat(500));
  await store.completeEffect({
    runId,
    key: `effect-${n}`,
    events: [{ runId, event: said(`result ${n}`), dedupe: `result-${n}` }],
    changes: { step: `call-${n}`, changes: [{ path: "a.txt", content, mode: "100644" }] },
    approvals: [sampleApproval(runId, `approval-${n}`)],
    posts: [{ name: `post-${n}`, commentId: n }],
    run: sampleRun(`child-${n}`, [], { parentId: runId, rootId: runId, depth: 1 }),
  });
  say(`finished ${n}`);
}
