import { expect, test, vi } from "vitest";
import { origin, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();

const fifty = Array.from({ length: 50 }, (_, index) => `delivery-${index}`);

test("fifty commands of one person at once start as many runs as the limit allows", async () => {
  const { runs, store } = await world({ script: turns(), runsPerHour: { person: 3, repository: 100 } });
  // The hour may move on after a run was refused, so what counts is the number that refused it.
  const counted = vi.spyOn(store, "countRuns").mockResolvedValue(0);

  const outcomes = await Promise.allSettled(
    fifty.map((deliveryId) => runs.startRun({ origin, worker: "reviewer", text: "look", deliveryId })),
  );

  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
  expect(outcomes.find(({ status }) => status === "rejected")).toMatchObject({
    reason: { name: "UserError", message: expect.stringContaining("@ada has started 3 runs in the last hour") },
  });
  counted.mockRestore();
  expect(await store.countRuns({ since: 0 })).toBe(3);
});

test("fifty people of one repository start as many runs at once as the repository allows", async () => {
  const { runs, store } = await world({ script: turns(), runsPerHour: { person: 100, repository: 2 } });

  const outcomes = await Promise.allSettled(
    fifty.map((name) =>
      runs.startRun({ origin: { ...origin, requestedBy: name }, worker: "reviewer", text: "look", deliveryId: name }),
    ),
  );

  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
  expect(outcomes.at(-1)).toMatchObject({
    reason: { message: expect.stringContaining("2 runs were started in octo/sums in the last hour") },
  });
  expect(await store.countRuns({ since: 0 })).toBe(2);
});

test("of an approval and a denial at the same moment one counts, and the other is told who decided", async () => {
  const { runs, approvalRequested, store, ended } = await world({
    script: turns({ calls: [{ name: "write_file", args: { path: "package.json", content: "{}" } }] }, { text: "So." }),
    github: { permissions: { mia: "write" } },
  });
  await runs.startRun({ origin, worker: "fixer", text: "do it" });
  const { id } = await approvalRequested();

  const outcomes = await Promise.allSettled(
    Array.from({ length: 10 }, (_, index) =>
      runs.decideApprovals(origin, { target: id, approve: index % 2 === 1, by: index % 2 === 1 ? "ada" : "mia" }),
    ),
  );

  const accepted = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value[0]] : []));
  expect(accepted).toHaveLength(1);
  expect(await store.findApproval(id)).toMatchObject({ decidedBy: accepted[0]?.decidedBy });
  for (const outcome of outcomes) {
    if (outcome.status === "rejected") expect(outcome.reason.message).toMatch(/was already (approved|denied) by @/);
  }
  const { log } = await ended();
  expect(log.filter((line) => /(approved|denied) /.test(line))).toHaveLength(1);
});

test("a thread of thousands of short comments takes one permission request per author, and the model gets an excerpt", async () => {
  const { runs, github, model, ended } = await world({ script: turns({ text: "Read." }) });
  const at = new Date(Date.now() - 60_000);
  for (let id = 1; id <= 5_000; id++) github.comment(7, "+1", { by: `fan-${id % 3}`, at });

  await runs.startRun({ origin, worker: "reviewer", text: "look" });
  await ended();

  const asked = github.hub.requests.filter(({ path }) => /collaborators\/fan-/.test(path));
  expect(asked.map(({ path }) => path.split("/").at(-2)).sort()).toEqual(["fan-0", "fan-1", "fan-2"]);
  const [request] = model.requests;
  expect(JSON.stringify(request).length).toBeLessThan(100_000);
  expect(JSON.stringify(request)).toContain("4,900 earlier comments are left out");
});

test("a worker reads the issue and the comments as they were at the time of the command", async () => {
  const { runs, github, model, ended } = await world({ script: turns({ text: "Read." }) });
  const commandedAt = new Date("2026-05-01T10:00:00Z");
  const comment = (body: string, time: string, edited = time) => {
    const [at, editedAt] = [new Date(`2026-05-01T${time}Z`), new Date(`2026-05-01T${edited}Z`)];
    github.comment(7, body, { by: "visitor", at, editedAt });
  };
  comment("written before", "09:59:59");
  comment("edited in the same second", "09:00:00", "10:00:00");
  comment("written after the command", "10:30:00");
  github.hub.as("visitor").editThread(7, { body: "changed later" });

  const seen = { at: commandedAt, title: "As it was", body: "seen by the person" };
  await runs.startRun({ origin, worker: "reviewer", text: "look", seen });
  await ended();

  const request = JSON.stringify(model.requests[0]);
  expect(request).toContain("written before");
  expect(request).toContain("seen by the person");
  for (const late of ["edited in the same second", "written after the command", "changed later"]) {
    expect(request).not.toContain(late);
  }
});
