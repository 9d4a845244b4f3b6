import { describe, expect, test, vi } from "vitest";
import { defaultPolicy } from "#config/deployment-policy.ts";
import type { RunEvent } from "#domain/events.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { dividePaused, raiseCostLimit } from "#runtime/service/run-requests.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { StoredRun } from "#runtime/store/store.ts";
import { sampleRun, sampleSnapshot, sampleSpec } from "../../support/store-samples.ts";

test("the cost limit of a run is raised although another run of the thread cannot be read", async () => {
  const store = openMemoryStore();
  await store.ingest({ run: { ...sampleRun("r1"), snapshot: sampleSnapshot("awaitingBudget") }, events: [] });
  const unreadable = new UnreadableDataError("Run r2 was stored by a newer release.");
  const [run] = await store.runsOfThread(sampleSpec("r1").origin);
  if (!run || run.unreadable) throw new Error("The run was just stored.");
  const { spec, snapshot: _, ...stored } = run;
  const newer: StoredRun = { ...stored, id: "r2", displaySpec: spec, unreadable };
  vi.spyOn(store, "runsOfThread").mockResolvedValue([newer, run]);
  const options = {
    store,
    scheduler: { wake: vi.fn() },
    policy: { ...defaultPolicy, limits: { ...defaultPolicy.limits, cost: 100 } },
    openGitHub: () => ({ readFile: async () => undefined, getPermission: async () => "write" }),
    now: () => 2_000,
  } as unknown as Parameters<typeof raiseCostLimit>[0];
  const raise = (runId?: string) => raiseCostLimit(options, spec.origin, { by: "mia", amount: 2, runId });

  expect(await raise()).toBe(run.snapshot.context.limits.cost + 2);
  await expect(raise("r2")).rejects.toThrow("Run r2 was stored by a newer release.");
});

describe("a run counts as paused", () => {
  const stop: RunEvent = { type: "run.stop", by: "ada" };
  const resume: RunEvent = { type: "run.resume", by: "ada" };
  const said: RunEvent = { type: "message.received", kind: "comment", text: "Hello.", by: "ada" };

  test.each<[string, "idle" | "interrupted", RunEvent[], boolean]>([
    ["works", "idle", [], false],
    ["works and has a message to read", "idle", [said], false],
    ["is about to be paused", "idle", [said, stop, said], true],
    ["is about to be paused again", "idle", [stop, resume, stop], true],
    ["is paused", "interrupted", [], true],
    ["is paused and has a message to read", "interrupted", [said], true],
    ["is paused and about to continue", "interrupted", [resume, said], false],
    ["is about to be paused and to continue", "idle", [stop, resume], false],
  ])("by what it is about to read, or by its state: one that %s", async (_, state, inbox, isPaused) => {
    const store = openMemoryStore();
    await store.ingest({ run: { ...sampleRun("r1"), snapshot: sampleSnapshot(state) }, events: [] });
    await store.ingest({ run: { ...sampleRun("r2"), snapshot: sampleSnapshot("idle") }, events: [] });
    await store.ingest({ events: inbox.map((event) => ({ runId: "r1", event })) });
    const live = await store.runsOfThread(sampleSpec("r1").origin);

    const { paused, running } = await dividePaused(store, live);

    expect(paused.map(({ id }) => id)).toEqual(isPaused ? ["r1"] : []);
    expect(running.map(({ id }) => id).sort()).toEqual(isPaused ? ["r2"] : ["r1", "r2"]);
  });

  test("by its state if its inbox cannot be read, and never if the run cannot be read", async () => {
    const store = openMemoryStore();
    await store.ingest({ run: { ...sampleRun("r1"), snapshot: sampleSnapshot("interrupted") }, events: [] });
    const [run] = await store.runsOfThread(sampleSpec("r1").origin);
    if (!run || run.unreadable) throw new Error("The run was just stored.");
    const { spec, snapshot: _, ...stored } = run;
    const unreadable = new UnreadableDataError("It was stored by a newer release.");
    const newer: StoredRun = { ...stored, id: "r2", displaySpec: spec, unreadable };
    const inbox = vi.spyOn(store, "inbox").mockRejectedValue(unreadable);

    expect(await dividePaused(store, [run, newer])).toEqual({ paused: [run], running: [newer] });
    expect(inbox).toHaveBeenCalledExactlyOnceWith("r1");
    inbox.mockRejectedValue(new Error("The disk is full."));
    await expect(dividePaused(store, [run])).rejects.toThrow("The disk is full.");
  });
});
