import { expect, test, vi } from "vitest";
import { defaultPolicy } from "#config/deployment-policy.ts";
import { type CostWarning, CostWatch } from "#runtime/scheduler/run-observer.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { requireRun } from "#runtime/store/store.ts";
import { sampleRun, sampleSpec, sampleStep, sampleUsage } from "../support/store-samples.ts";

/** Watches a store in which one run of a repository has cost this much today. */
async function watched(cost: number) {
  const store = openMemoryStore();
  const { origin } = sampleSpec("r1");
  const run = sampleRun("r1", [], { createdAt: Date.now(), origin: { ...origin, repositoryId: 11 } });
  await store.ingest({ run, events: [] });
  const usage = sampleUsage({ hour: Math.floor(Date.now() / (60 * 60_000)), cost });
  await store.advance(sampleStep("r1", { usage }));
  const warnings: CostWarning[] = [];
  const policy = { ...defaultPolicy, cost_per_day: { repository: 10, total: 100 }, cost_warning_percent: 80 };
  const row = await requireRun(store, "r1");
  const errors: unknown[] = [];
  const spend = () => {
    const options = { store, policy, onWarning: (warning: CostWarning) => warnings.push(warning) };
    const watch = new CostWatch({ ...options, onError: (error) => errors.push(error), intervalMs: 0 });
    const after = { snapshot: row.snapshot, status: "active" as const, usage: sampleUsage() };
    watch.transitionStored({ run: row, events: [], after });
  };
  const checked = vi.spyOn(store, "costSince");
  return { spend, warnings, errors, checked };
}

test("people are warned once when most of a repository's daily budget is used, by any process", async () => {
  const { spend, warnings, checked } = await watched(8);

  spend();
  await vi.waitFor(() => expect(warnings).toHaveLength(1), { timeout: 60_000 });
  spend();
  await vi.waitFor(() => expect(checked).toHaveBeenCalledTimes(4), { timeout: 60_000 });

  expect(warnings).toEqual([{ scope: "repository", repository: "ada/engine", spent: 8, limit: 10 }]);
});

test("most of the deployment's budget of a day is warned about", async () => {
  const { spend, warnings } = await watched(80);

  spend();

  await vi.waitFor(() => expect(warnings).toContainEqual({ scope: "total", spent: 80, limit: 100 }), {
    timeout: 60_000,
  });
});

test("less than the percentage of the policy is not warned about", async () => {
  const { spend, warnings, checked } = await watched(7.9);

  spend();
  await vi.waitFor(() => expect(checked).toHaveBeenCalledTimes(2), { timeout: 60_000 });

  expect(warnings).toEqual([]);
});
