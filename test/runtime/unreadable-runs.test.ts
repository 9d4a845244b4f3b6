import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, expect, test } from "vitest";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { origin, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();
const folder = await mkdtemp(join(tmpdir(), "golem-unreadable-"));
afterAll(() => rm(folder, { recursive: true, force: true }));
let files = 0;

const sorter = "---\nname: sorter\non: { issues: { types: [opened] } }\n---\nHi.";

/** A run that waits for the answer to a question, over a database that a newer release can have written to. */
async function waitingRun(workers: Record<string, string> = {}) {
  files += 1;
  const path = join(folder, `${files}.db`);
  const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
  const script = turns(ask, { text: "Thanks." });
  const made = await world({ store: await openSqliteStore(path), script, github: { files: workers } });
  const { id } = await made.runs.startRun({ origin, worker: "fixer", text: "please" });
  await made.waitUntilShown(({ kind }) => kind === "question");
  await made.runtime.idle();
  return {
    ...made,
    id,
    execute(sql: string): void {
      const database = new DatabaseSync(path);
      database.exec(sql);
      database.close();
    },
    wake: () => made.runtime.scheduler.wake(id),
    stopped: async () => (await made.waitUntilShown(({ view }) => view.state === "interrupted")).view,
  };
}

test("a run whose state a newer release has written is shown as stopped, and continues when it can be read", async () => {
  const { id, execute, store, stopped, runs, runtime, model, errors, ended, wake } = await waitingRun();
  execute(
    "create table kept as select snapshot from runs; update runs set snapshot = json_set(snapshot, '$.version', 2)",
  );

  expect(await runs.deliverMessage(origin, { by: "ada", text: "The second." })).toBe(id);
  const view = await stopped();
  await runtime.idle();

  expect(view.activity).toMatch(/^Paused\. The state of the run was stored by a newer release of Golem Forge/);
  expect(view.spec).toMatchObject({ id, worker: { name: "fixer" } });
  expect(errors).toEqual([expect.any(UnreadableDataError)]);
  expect(model.requests).toHaveLength(1);
  await expect(runs.requestResume(origin, { by: "ada" })).rejects.toThrow("was stored by a newer release");

  wake();
  await runtime.idle();
  expect(errors).toHaveLength(1);

  execute("update runs set snapshot = (select snapshot from kept)");
  await store.ingest({
    events: [
      {
        runId: id,
        event: { type: "question.answered", callId: (await openQuestion(store, id)) ?? "", text: "It.", by: "ada" },
      },
    ],
  });
  wake();
  expect((await ended()).outcome).toEqual({ kind: "answered", text: "Thanks." });
});

test("a run with an event of a newer release is shown as stopped, and nothing of it is performed", async () => {
  const { id, execute, stopped, runs, runtime, model, errors, store, wake } = await waitingRun();
  execute(`insert into events (id, run_id, at, event) values (900, '${id}', 0, '{"type":"dream.had","version":2}');
    insert into inbox (run_id, event_id) values ('${id}', 900); update runs set last_event = 900`);

  wake();

  expect((await stopped()).activity).toMatch(/^Paused\. Event 900 was stored by a newer release/);
  await runtime.idle();
  expect(model.requests).toHaveLength(1);
  expect(errors).toEqual([expect.any(UnreadableDataError)]);
  await expect(runs.deliverMessage(origin, { by: "ada", text: "The second." })).rejects.toMatchObject({
    name: "UserError",
    message: expect.stringContaining("Event 900 was stored by a newer release"),
  });
  await runs.requestStop(origin, { by: "ada" });
  execute("delete from inbox where event_id = 900; delete from events where id = 900");
  expect(await store.inbox(id)).toMatchObject([{ event: { type: "run.stop", by: "ada" } }]);
});

test("an effect of an unknown kind stops its run with the reason, and is performed when it is known", async () => {
  const { id, execute, stopped, runtime, errors, store, wake } = await waitingRun();
  execute(
    `insert into effects (key, run_id, number, queue, kind, input, due_at, requested_at)
      values ('new', '${id}', 1, 'work', 'model.dream', '{"version":1}', 0, 0)`,
  );

  wake();

  expect((await stopped()).activity).toContain("The stored effect model.dream cannot be read");
  await runtime.idle();
  expect(errors).toEqual([expect.any(UnreadableDataError)]);
  expect(await store.dueRuns(Date.now())).toEqual([id]);

  execute("update effects set kind = 'children.stop' where key = 'new'");
  wake();
  await runtime.idle();
  expect(await store.dueRuns(Date.now())).toEqual([]);
});

test("an approval of a newer release is neither used nor decided, and says why", async () => {
  const { id, execute, runs, store } = await waitingRun();
  await store.ingest({
    events: [],
    effects: [{ key: "review", runId: id, queue: "work", request: { kind: "calls.review" } }],
  });
  execute(`insert into approvals (id, run_id, root_id, status, expires_at, approval)
    values ('a1b2', '${id}', '${id}', 'pending', 9e15, '{"version":2}')`);

  const decided = runs.decideApprovals(origin, { by: "ada", target: "all", approve: true });

  await expect(decided).rejects.toMatchObject({
    name: "UserError",
    message: expect.stringContaining("Approval a1b2 was stored by a newer release"),
  });
});

async function openQuestion(store: Awaited<ReturnType<typeof waitingRun>>["store"], id: string) {
  const run = await store.findRun(id);
  return run?.unreadable ? undefined : run?.snapshot.context.openCalls[0]?.callId;
}

test.each([
  ["state", "update runs set snapshot = json_set(snapshot, '$.version', 99)"],
  ["inbox", "insert into inbox (run_id, event_id) select run_id, id from events; update events set event = '{'"],
  [
    "last pause",
    `insert into events (run_id, at, event) select id, 0, '{"version":99,"type":"run.stop","by":"ada"}' from runs`,
  ],
])(
  "while the %s of a run cannot be read, no event and no schedule starts a worker in its thread until a person cancels it, but a person does",
  async (name, change) => {
    const { id, execute, runs } = await waitingRun({ ".github/workers/sorter.worker": sorter });
    execute(change);
    const schedule = { cron: "0 6 * * *", issue: origin.thread, task: "Look." };
    const started = async () => (await runs.listRunViews(origin)).map(({ spec }) => spec.worker.name);

    const labels: string[] = [];
    const event = { type: "opened", labels, author: "ada", origin };
    const start = (deliveryId: string) => runs.startTriggered({ event: "issues", ...event, deliveryId });
    const { pause, problems } = await start("e1");

    expect(problems).toEqual([]);
    expect(pause?.key).toBe(`unreadable/${id}`);
    expect(pause?.text).toMatch(/\. Somebody may have paused this run, so events and schedules start no worker/);
    expect(await runs.startScheduled({ repository: origin, worker: "explorer", schedule, deliveryId: "s1" })).toEqual(
      pause,
    );
    expect(await started()).toEqual(["fixer"]);
    await runs.startRun({ origin, worker: "explorer", text: "Look." });
    expect(await started()).toContain("explorer");
    expect(await start("e2")).toEqual({ problems: [], pause });
    const { unreadable } = await runs.requestCancel(origin, { by: "ada" });
    if (name !== "last pause") expect(pause?.text).toContain(unreadable[0]);
    expect(await start("e3")).toEqual({ problems: [] });
    expect(await started()).toContain("sorter");
  },
);

test("a comment goes to a run that cannot be read, which counts as live, until a person cancels it", async () => {
  const { execute, runs, id } = await waitingRun();
  execute("update runs set snapshot = json_set(snapshot, '$.version', 99)");
  const comment = () => runs.deliverMessage(origin, { by: "ada", text: "And the tests." });

  expect(await comment()).toBe(id);
  expect(await runs.threadActivity(origin)).toBe("live");
  await runs.requestCancel(origin, { by: "ada" });

  expect(await comment()).toBeUndefined();
  expect(await runs.threadActivity(origin)).toBe("ended");
});
