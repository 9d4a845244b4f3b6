import { expect, test, vi } from "vitest";
import { removeExpiredData } from "#runtime/create-runtime.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { said, sampleRun, sampleStep } from "../support/store-samples.ts";

const day = 24 * 60 * 60_000;

test("the logs of runs that ended long ago are removed in the background, others are kept", async () => {
  const store = openMemoryStore();
  for (const id of ["old1", "old2"]) {
    await store.ingest({ run: sampleRun(id), events: [{ runId: id, event: said("hello") }] });
    await store.advance(sampleStep(id, { status: "done" }));
  }
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 91 * day });
  await store.ingest({ run: sampleRun("new"), events: [{ runId: "new", event: said("hello") }] });
  await store.advance(sampleStep("new", { status: "done" }));
  const stop = new AbortController();
  const onError = vi.fn();
  const failing = vi.spyOn(store, "removeExpired").mockRejectedValueOnce(new Error("The database is away."));

  const forever = { runMs: undefined, deliveryMs: 30 * day };
  const quarter = { runMs: 90 * day, deliveryMs: 30 * day };
  const kept = removeExpiredData(store, forever, { signal: stop.signal, now: Date.now, onError });
  const removing = removeExpiredData(store, quarter, { signal: stop.signal, now: Date.now, onError });
  await vi.waitUntil(async () => (await store.log("old2")).length === 0, { timeout: 60_000 });
  stop.abort();
  await Promise.all([kept, removing]);

  expect(await store.log("old1")).toEqual([]);
  expect(await store.log("new")).toHaveLength(1);
  expect(onError).toHaveBeenCalledTimes(1);
  failing.mockRestore();
  vi.useRealTimers();
});
