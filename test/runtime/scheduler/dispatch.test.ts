import { expect, test, vi } from "vitest";
import { type DispatchTarget, localDispatch } from "#runtime/scheduler/dispatch.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { sampleRun } from "../../support/store-samples.ts";

/** A dispatch with a limit of one run per repository. `started` lists the runs as they start; each runs until it is ended. */
async function limitedDispatch() {
  const store = openMemoryStore();
  const errors: unknown[] = [];
  const dispatch = localDispatch({ store, runsPerRepository: 1, onError: (error) => errors.push(error) });
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const target: DispatchTarget = {
    process: (runId) => {
      started.push(runId);
      return new Promise((resolve) => ends.set(runId, resolve));
    },
    notify: () => false,
    revokeLease: () => undefined,
    sweep: async () => undefined,
  };
  await dispatch.attach(target);
  const wake = async (runId: string, repositoryId: number) => {
    const { origin } = sampleRun(runId).spec;
    await store.ingest({ run: sampleRun(runId, [], { origin: { ...origin, repositoryId } }), events: [] });
    dispatch.wake(runId);
  };
  const hasStarted = (...runIds: string[]) => vi.waitUntil(() => started.join() === runIds.join(), 60_000);
  return { dispatch, started, errors, wake, hasStarted, end: (runId: string) => ends.get(runId)?.() };
}

test("runs of a repository start in the order in which they were woken, and keep those of another waiting for none", async () => {
  const { dispatch, errors, wake, hasStarted, end } = await limitedDispatch();

  await wake("a1", 1);
  await wake("a2", 1);
  await wake("a3", 1);
  await wake("b1", 2);

  await hasStarted("a1", "b1");
  end("a1");
  await hasStarted("a1", "b1", "a2");
  end("a2");
  await hasStarted("a1", "b1", "a2", "a3");
  await dispatch.detach(async () => undefined);
  expect(errors).toEqual([]);
});

test("a run that is woken while it ends keeps its turn", async () => {
  const { dispatch, wake, hasStarted, end } = await limitedDispatch();
  await wake("a1", 1);
  await wake("a2", 1);
  await hasStarted("a1");

  dispatch.wake("a1");
  end("a1");

  await hasStarted("a1", "a1");
  end("a1");
  await hasStarted("a1", "a1", "a2");
  await dispatch.detach(async () => undefined);
});

test("no waiting run starts while the process stops", async () => {
  const { dispatch, started, wake, hasStarted, end } = await limitedDispatch();
  await wake("a1", 1);
  await wake("a2", 1);
  await hasStarted("a1");

  await dispatch.detach(async () => end("a1"));

  expect(started).toEqual(["a1"]);
});
