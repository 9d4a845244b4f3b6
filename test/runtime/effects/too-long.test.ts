import { expect, test } from "vitest";
import { origin, runtimeWorlds, turns } from "../../support/runtime-world.ts";

const world = runtimeWorlds();

test("a call that is too long to be shown is refused without an approval request, and the worker is told to split it up", async () => {
  const content = "a line\n".repeat(3_000);
  const write = { calls: [{ name: "write_file", args: { path: "long.txt", content } }] };
  const openPull = { calls: [{ name: "open_pull_request", args: { title: "Add it", body: "" } }] };
  const { runs, ended, model, shown, github } = await world({
    script: turns(write, openPull, { text: "I split it up." }),
  });

  await runs.startRun({ origin, worker: "fixer", text: "please" });

  await ended();
  expect(shown.some(({ kind }) => kind === "approval")).toBe(false);
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toMatch(
    /too long to show: \d\d,\d{3} characters.*Split it into several calls/,
  );
  expect(await github.pulls()).toEqual([]);
});
