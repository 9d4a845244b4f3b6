import { expect, test, vi } from "vitest";
import { origin, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();

test("whether somebody listens in a thread is one question to the store, however much was said there", async () => {
  const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
  const { runs, runtime, heard, store } = await world({ script: turns(ask) });
  expect(await runs.threadActivity(origin)).toBe("none");
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  await heard(({ kind }) => kind === "question");
  await runtime.idle();
  const methods = (Object.keys(store) as (keyof typeof store)[]).map((name) => vi.spyOn(store, name));

  expect(await runs.threadActivity(origin)).toBe("live");

  expect(methods.flatMap(({ mock }) => mock.calls)).toEqual([[origin]]);
  await runs.requestCancel(origin, { by: "ada" });
  await heard(({ kind }) => kind === "outcome");
  expect(await runs.threadActivity(origin)).toBe("ended");
});
