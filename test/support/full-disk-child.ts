import { rmSync, statfsSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { said, sampleRun } from "./store-samples.ts";

// Fills the disk of the folder, frees it again, and prints the store's results as one JSON object.

const [folder = ""] = process.argv.slice(2);
const path = join(folder, "forge.db");
const ballast = join(folder, "ballast");
const messageOf = (work: Promise<unknown>) =>
  work.then(
    () => "ok",
    (error: Error) => error.message,
  );

const store = await openSqliteStore(path);
await store.ingest({ run: sampleRun("r1"), events: [] });
const { bavail, bsize } = statfsSync(folder);
writeFileSync(ballast, Buffer.alloc(bavail * bsize - 100_000));

const save = (text: string) => store.ingest({ events: [{ runId: "r1", event: said(text) }] });
let acknowledged = 0;
let refusal = "ok";
while (refusal === "ok") {
  refusal = await messageOf(save(`${acknowledged} ${"x".repeat(10_000)}`));
  if (refusal === "ok") acknowledged += 1;
}
const whileFull = await messageOf(store.ping());
rmSync(ballast);
const whenFreed = await messageOf(store.ping());
const next = await messageOf(save(`${acknowledged} after`));
await store.close();

const reopened = await openSqliteStore(path);
const texts = (await reopened.log("r1")).map(({ event }) => Number("text" in event && event.text.split(" ")[0]));
await reopened.close();
writeSync(1, JSON.stringify({ acknowledged, refusal, whileFull, whenFreed, next, texts }));
