import { expect, test, vi } from "vitest";
import { defaultPolicy } from "#config/deployment-policy.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { raiseCostLimit } from "#runtime/service/run-requests.ts";
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
