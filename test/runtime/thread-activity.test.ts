import { expect, test, vi } from "vitest";
import { origin, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();

test("whether a thread has a live run takes one read of the store, however long the thread is", async () => {
  const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
  const { runs, runtime, waitUntilShown, store } = await world({ script: turns(ask) });
  expect(await runs.threadActivity(origin)).toBe("none");
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  await waitUntilShown(({ kind }) => kind === "question");
  await runtime.idle();
  const methods = (Object.keys(store) as (keyof typeof store)[]).map((name) => vi.spyOn(store, name));

  expect(await runs.threadActivity(origin)).toBe("live");

  expect(methods.flatMap(({ mock }) => mock.calls)).toEqual([[origin]]);
  await runs.requestCancel(origin, { by: "ada" });
  await waitUntilShown(({ kind }) => kind === "outcome");
  expect(await runs.threadActivity(origin)).toBe("ended");
});
