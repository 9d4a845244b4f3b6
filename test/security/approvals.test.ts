import { expect, test } from "vitest";
import { origin, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();

test("an approval for the session does not cover the same call of a child worker", async () => {
  const files = {
    ".github/workers/boss.worker":
      "---\nname: boss\ntoolsets: { filesystem: {}, workers: { allowed: [writer] } }\n---\nYou are the boss.",
    ".github/workers/writer.worker": "---\nname: writer\ntoolsets: { filesystem: {} }\n---\nYou are the writer.",
  };
  const same = { calls: [{ name: "write_file", args: { path: "package.json", content: "{}" } }] };
  const { runs, approvalRequested, ended } = await world({
    script: ({ messages }) => {
      const isChild = JSON.stringify(messages[0]).includes("You are the writer.");
      const turn = messages.filter(({ role }) => role === "assistant").length;
      const boss = [same, { calls: [{ name: "writer", args: { task: "the same" } }] }, { text: "Done." }];
      return (isChild ? [same, { text: "Done." }] : boss)[turn] ?? { text: "Done." };
    },
    github: { files },
  });
  await runs.startRun({ origin, worker: "boss", text: "please" });
  const first = await approvalRequested();
  await runs.decideApprovals(origin, { target: first.id, approve: true, remember: "session", by: "ada" });

  const second = await approvalRequested([first.id]);

  expect(second).toMatchObject({ workerPath: "boss -> writer", tool: "write_file" });
  await runs.decideApprovals(origin, { target: second.id, approve: false, by: "ada" });
  await ended();
});

test("an approval to call a worker is bound to the worker's definition", async () => {
  const files = {
    ".github/workers/boss.worker":
      "---\nname: boss\ntoolsets: { workers: { allowed: [writer] } }\n---\nYou are the boss.",
    ".github/workers/writer.worker": "---\nname: writer\n---\nYou are the writer.",
  };
  const { runs, approvalRequested, ended, store } = await world({
    script: ({ messages }) => {
      const isFirst = !messages.some(({ role }) => role === "assistant");
      const isBoss = JSON.stringify(messages[0]).includes("You are the boss.");
      return isBoss && isFirst ? { calls: [{ name: "writer", args: { task: "Write." } }] } : { text: "Done." };
    },
    github: { files },
    policy: { always_ask: ["writer"] },
  });
  const { id } = await runs.startRun({ origin, worker: "boss", text: "please" });
  const request = await approvalRequested();

  await runs.decideApprovals(origin, { target: request.id, approve: true, by: "ada" });

  await ended();
  expect(request.preview).toEqual({ sections: [], bindings: { worker: expect.stringMatching(/^[0-9a-f]{64}$/) } });
  expect(await store.childrenOf(id)).toMatchObject([{ spec: { worker: { name: "writer" } } }]);
});

test("a run that is stopped while it pushes says so, and the repeated call finds the pull request", async () => {
  const files = {
    ".github/workers/hasty.worker":
      "---\nname: hasty\ntoolsets: { filesystem: {}, pull_request: { approval: { default: preApproved } } }\nsandbox: { approval: { write: preApproved } }\n---\nHurry.",
  };
  const open = { calls: [{ name: "open_pull_request", args: { title: "Add two", body: "One more." } }] };
  const write = { calls: [{ name: "write_file", args: { path: "new.js", content: "export const two = 2;\n" } }] };
  const { runs, github, waitUntilShown, model, ended, runtime, store, errors } = await world({
    script: turns(write, open, open, { text: "Opened." }),
    github: { files },
    policy: { always_ask: [] },
  });
  const pushing = Promise.withResolvers<void>();
  const proceed = Promise.withResolvers<void>();
  github.hub.onRequest(async ({ operation }) => {
    if (operation !== "POST /repos/{owner}/{repo}/pulls") return undefined;
    pushing.resolve();
    await proceed.promise;
    return undefined;
  });
  const { id } = await runs.startRun({ origin, worker: "hasty", text: "go" });
  await pushing.promise;

  await runs.requestStop(origin, { by: "ada" });
  await waitUntilShown(({ view }) => view.state === "interrupted");
  await runtime.idle();
  proceed.resolve();
  await expect.poll(() => github.pulls()).toHaveLength(1);
  expect((await store.log(id)).filter(({ event }) => event.type === "tool.finished")).toHaveLength(1);
  await runs.requestResume(origin, { by: "ada" });

  expect((await ended()).outcome).toEqual({ kind: "answered", text: "Opened." });
  expect(JSON.stringify(model.requests.at(-1))).toContain("paused the run before this call finished");
  expect(await github.pulls()).toHaveLength(1);
  expect(errors).toEqual([]);
});
