import { describe, expect, test } from "vitest";
import { type WebWorld, webWorlds } from "../support/web-world.ts";

const world = webWorlds();

const titlesIn = (text: string) => [...text.matchAll(/<a class="title"[^>]*>([^<]*)/g)].map(([, title]) => title);

async function startRuns({ startRun }: WebWorld): Promise<void> {
  const origin = { owner: "octo", repo: "sums" };
  await startRun("abc1", { spec: { task: "fix the sum", createdAt: 1_000 } });
  await startRun("abc2", {
    spec: {
      threadTitle: "write the docs",
      createdAt: 2_000,
      origin: { ...origin, repo: "docs", requestedBy: "grace" } as never,
    },
    value: { handlingCalls: "awaitingApproval" },
  });
  await startRun("abc3", {
    spec: { task: "upgrade vitest", createdAt: 3_000 },
    value: "ended",
    context: { outcome: { kind: "answered" } as never },
  });
}

describe("the list of runs", () => {
  test("the list of runs requires signing in", async () => {
    const made = await world();
    await startRuns(made);

    const { status, text } = await made.get("/runs");

    expect([status, titlesIn(text)]).toEqual([200, []]);
    expect(text).toContain("/runs/-/sign-in?to=%2Fruns");
  });

  test("the list of runs shows the runs of repositories that the person can read, newest first, each with a link to its page", async () => {
    const made = await world();
    await startRuns(made);

    const { text } = await made.get("/runs", { cookie: made.signedIn("tom").cookie });

    expect(titlesIn(text)).toEqual(["upgrade vitest", "write the docs", "fix the sum"]);
    expect(text).toContain(`href="${made.pathOf("abc2")}"`);
  });

  test("the list of runs is limited to 120 requests of a person per minute", async () => {
    const { get, signedIn } = await world();
    const { cookie } = signedIn("tom");
    const statuses: number[] = [];

    for (let count = 0; count < 121; count += 1) statuses.push((await get("/runs", { cookie })).status);

    expect([statuses[119], statuses[120]]).toEqual([200, 429]);
    expect((await get("/runs", { cookie: signedIn("mia").cookie })).status).toBe(200);
  });

  test("the list hides runs of private repositories from people who cannot read them", async () => {
    const made = await world({ github: { private: true } });
    await startRuns(made);
    const titles = async (login: string) =>
      titlesIn((await made.get("/runs", { cookie: made.signedIn(login).cookie })).text);

    expect(await titles("stranger")).toEqual([]);
    expect(await titles("tom")).toHaveLength(3);
  });

  test.each([
    ["state=waiting", ["write the docs"]],
    ["state=done", ["upgrade vitest"]],
    ["state=working", ["fix the sum"]],
    ["repository=docs", ["write the docs"]],
    ["person=@Grace", ["write the docs"]],
    ["text=VITEST", ["upgrade vitest"]],
    ["text=abc1", ["fix the sum"]],
    ["worker=nobody", []],
    ["state=nonsense&worker=fix", ["upgrade vitest", "write the docs", "fix the sum"]],
  ])("the list of runs is filtered by %s", async (query, expected) => {
    const made = await world();
    await startRuns(made);

    const { text } = await made.get(`/runs?${query}`, { cookie: made.signedIn("tom").cookie });

    expect(titlesIn(text)).toEqual(expected);
  });

  test("the list of runs has pages, and a filter holds for the next one", async () => {
    const made = await world();
    for (let number = 1; number <= 32; number += 1) {
      await made.startRun(`abc${number}`, { spec: { task: `task ${number}`, createdAt: number } });
    }
    const { cookie } = made.signedIn("tom");

    const first = await made.get("/runs?worker=fix", { cookie });
    const next = /href="([^"]+)">Older runs/.exec(first.text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const second = await made.get(next, { cookie });

    expect(titlesIn(first.text)).toHaveLength(30);
    expect(next).toContain("worker=fix");
    expect(titlesIn(second.text)).toEqual(["task 2", "task 1"]);
    expect(second.text).not.toContain("Older runs");
  });
});
