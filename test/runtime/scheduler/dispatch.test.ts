import { expect, onTestFinished, test, vi } from "vitest";
import { type DispatchTarget, localDispatch, type Processed, QueuePositions } from "#runtime/scheduler/dispatch.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { RunStatus } from "#runtime/store/store.ts";
import { said, sampleRun, sampleStep } from "../../support/store-samples.ts";

/** A dispatch with a limit of one run per repository. `started` lists the runs as they start; each runs until it is ended. */
async function limitedDispatch() {
  const store = openMemoryStore();
  const errors: unknown[] = [];
  const dispatch = localDispatch({ store, runsPerRepository: 1, onError: (error) => errors.push(error) });
  const started: string[] = [];
  const ends = new Map<string, (processed: Processed) => void>();
  const counted = vi.fn<(runId: string, isCounted: boolean) => void>();
  const target: DispatchTarget = {
    process: (runId, isCounted) => {
      started.push(runId);
      counted(runId, isCounted);
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
  const end = (runId: string, processed: Processed = "finished") => ends.get(runId)?.(processed);
  return { store, dispatch, started, counted, errors, wake, hasStarted, end };
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
  end("a3");
  await wake("a4", 1);
  await hasStarted("a1", "b1", "a2", "a3", "a4");
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

test("a run that only has comments to post waits for no other, and none waits for it", async () => {
  const { store, dispatch, wake, hasStarted, end } = await limitedDispatch();
  const create = async (runId: string, status: RunStatus) => {
    const { origin } = sampleRun(runId).spec;
    await store.ingest({ run: sampleRun(runId, [], { origin: { ...origin, repositoryId: 1 } }), events: [] });
    await store.advance(sampleStep(runId, { status }));
  };
  await create("ended", "done");
  await create("waits", "waiting");
  await create("continues", "waiting");
  await wake("a1", 1);
  await hasStarted("a1");

  for (const runId of ["ended", "waits"]) dispatch.wake(runId);

  await hasStarted("a1", "ended", "waits");
  await store.ingest({ events: [{ runId: "continues", event: said("Go on.") }] });
  dispatch.wake("continues");
  await wake("b1", 2);
  await hasStarted("a1", "ended", "waits", "b1");
  end("a1");
  await hasStarted("a1", "ended", "waits", "b1", "continues");
  await dispatch.detach(async () => undefined);
});

test("a run that is stopped while it waits for its turn is performed at once, and one that has to work nevertheless awaits its turn", async () => {
  const { store, dispatch, counted, wake, hasStarted, end } = await limitedDispatch();
  await wake("a1", 1);
  await wake("a2", 1);
  await wake("a3", 1);
  await hasStarted("a1");

  await store.ingest({ events: [{ runId: "a3", event: { type: "run.stop", by: "ada" } }] });
  dispatch.wake("a3");

  await hasStarted("a1", "a3");
  await store.ingest({ events: [{ runId: "a3", event: { type: "run.resume", by: "ada" } }] });
  end("a3", "awaitsTurn");
  end("a1");
  await hasStarted("a1", "a3", "a2");
  end("a2");
  await hasStarted("a1", "a3", "a2", "a3");
  expect(counted.mock.calls).toEqual([
    ["a1", true],
    ["a3", false],
    ["a2", true],
    ["a3", true],
  ]);
  await dispatch.detach(async () => undefined);
});

test("a position in the queue that cannot be shown keeps no other from being shown, and is tried again when it changes", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const failure = new Error("Bad gateway.");
  const show = vi.fn(async (runId: string) => {
    if (runId === "a1") throw failure;
    return true;
  });
  const onError = vi.fn();
  let position = 2;
  const findWaiting = async () => ["a1", "b1"].map((runId) => ({ runId, position }));
  const positions = new QueuePositions({ runsPerRepository: 1, findWaiting, show, onError });
  const pass = async (calls: number) => {
    vi.advanceTimersByTime(2_000);
    await vi.waitFor(() => expect(show).toHaveBeenCalledTimes(calls), { timeout: 60_000 });
  };

  positions.start();
  await pass(2);
  await pass(2);
  position = 1;
  await pass(4);

  expect(show.mock.calls.map(([runId]) => runId)).toEqual(["a1", "b1", "a1", "b1"]);
  expect(onError.mock.calls).toEqual([[failure], [failure]]);
  await positions.stop();
});

test("no waiting run starts while the process stops", async () => {
  const { dispatch, started, wake, hasStarted, end } = await limitedDispatch();
  await wake("a1", 1);
  await wake("a2", 1);
  await hasStarted("a1");

  await dispatch.detach(async () => end("a1"));

  expect(started).toEqual(["a1"]);
});
