import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { describe, expect, test, vi } from "vitest";
import type { RunEvent } from "#domain/events.ts";
import { streamRun } from "#web/event-stream.ts";
import { listenTo } from "../support/event-stream.ts";
import { said } from "../support/store-samples.ts";
import { webWorlds } from "../support/web-world.ts";

const world = webWorlds();

function texts(entries: { html: string }[]): string[] {
  return entries.flatMap(({ html }) => [...html.matchAll(/<p class="said">(.*?)<\/p>/gs)].map(([, text = ""]) => text));
}

test("an open page hears what happens, and one that comes back goes on from where it was", async () => {
  const { startRun, store, url, pathOf } = await world();
  await startRun("abc1", { events: [said("one")] });
  const address = `${url}${pathOf("abc1")}/events`;

  const first = await listenTo(`${address}?after=abc1:0`);
  const opening = await first.next();
  await store.ingest({ events: [{ runId: "abc1", event: said("two") }] });
  const second = await first.next();
  await first.close();
  await store.ingest({ events: [{ runId: "abc1", event: said("three") }] });
  const back = await listenTo(`${address}?after=abc1:0`, { "last-event-id": second?.id ?? "" });
  let third = await back.next();
  while (third?.entries.length === 0) third = await back.next();
  await back.close();

  expect(opening?.parts.map(({ id }) => id)).toEqual(["now", "chart", "limits", "commands", "live-abc1"]);
  expect(texts(opening?.entries ?? [])).toEqual(["one"]);
  expect(second?.parts).toEqual([]);
  expect(texts(second?.entries ?? [])).toEqual(["two"]);
  expect(texts(third?.entries ?? [])).toEqual(["three"]);
});

test("an approval comes, and goes when it is decided", async () => {
  const { startRun, store, url, pathOf, post, clock } = await world();
  await startRun("abc1", { value: { handlingCalls: "awaitingApproval" }, approvals: [{}] });
  const page = await listenTo(`${url}${pathOf("abc1")}/events`);

  const opening = await page.next();
  clock.offset = 1_000;
  await post(`${pathOf("abc1")}/deny`, { as: "mia", fields: { approval: "k0mq", digest: "d".repeat(64) } });
  const decided = await page.next();
  await page.close();

  expect(opening?.parts.find(({ id }) => id === "approval-k0mq")?.into).toBe("approvals");
  expect(decided?.gone).toEqual(["approval-k0mq"]);
  expect(decided?.entries[0]?.html).toContain("<b>mia</b> denied <code>k0mq</code> on the run page");
  expect((await store.findApproval("k0mq"))?.status).toBe("denied");
});

test("a child appears with a lane of its own", async () => {
  const { startRun, url, pathOf } = await world();
  await startRun("abc1");
  const page = await listenTo(`${url}${pathOf("abc1")}/events`);
  await page.next();

  const spec = { rootId: "abc1", parentId: "abc1", parentCallId: "c1", depth: 1, workerPath: "fixer -> tester" };
  await startRun("child1", { spec, events: [said("test it")] });
  let change = await page.next();
  while (change && !change.entries.some(({ run }) => run === "child1")) change = await page.next();
  await page.close();

  expect(texts(change?.entries ?? [])).toEqual(["test it"]);
});

test("what a tool prints and the model writes at the moment is shown, whole words of its end, while it does", async () => {
  const { startRun, live, url, pathOf } = await world();
  await startRun("abc1", {
    value: { handlingCalls: "executing" },
    context: { openCalls: [{ callId: "c1", tool: "shell", answeredBy: "tool", status: "running" }] },
  });
  live.add("abc1", { source: "model/1", text: "earlier words of the model " });
  live.add("abc1", { source: "c1", text: `${"a line\n".repeat(5_000)}the last line\nhalf a wo` });
  const page = await listenTo(`${url}${pathOf("abc1")}/events`);

  const shown = (await page.next())?.parts.find(({ id }) => id === "live-abc1")?.html ?? "";
  live.forget("abc1");
  const after = await page.next();
  await page.close();

  expect(shown).toMatch(/a line\nthe last line\nhalf a <\/pre>/);
  expect(shown.length).toBeLessThan(1_000);
  expect(after?.parts).toEqual([{ id: "live-abc1", version: expect.anything(), html: '<div id="live-abc1"></div>' }]);
});

describe("a flood", () => {
  test("of watchers is bounded for each run, and who leaves makes room", async () => {
    const { startRun, url, pathOf } = await world();
    await startRun("abc1");
    await startRun("abc2");
    const open = () => listenTo(`${url}${pathOf("abc1")}/events`);

    const watching = await Promise.all(Array.from({ length: 20 }, open));
    const other = await listenTo(`${url}${pathOf("abc2")}/events`);
    const statuses = watching.map(({ status }) => status);

    expect(statuses.filter((status) => status === 200)).toHaveLength(16);
    expect(statuses.filter((status) => status === 429)).toHaveLength(4);
    expect(other.status).toBe(200);

    await watching.find(({ status }) => status === 200)?.close();
    let again = await open();
    while (again.status === 429) again = await open();
    expect(again.status).toBe(200);
  });

  test("of openings of one run is bounded in a minute, and other runs are not its victims", async () => {
    const { startRun, get, pathOf, clock } = await world();
    await startRun("abc1");
    await startRun("abc2");

    const statuses: number[] = [];
    for (let times = 0; times < 125; times++) statuses.push((await get(pathOf("abc1"))).status);

    expect(statuses.filter((status) => status === 429)).toHaveLength(5);
    expect((await get(pathOf("abc2"))).status).toBe(200);
    clock.offset = 61_000;
    expect((await get(pathOf("abc1"))).status).toBe(200);
  });

  test("that reads nothing of what it asks for is made nothing more, and hung up on after a minute", async () => {
    const { startRun, store, books, now, clock } = await world();
    await startRun("abc1", { events: [said("x".repeat(60_000))] });
    // It has no socket, so that nothing of it is ever read.
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const context = { viewer: { kind: "anonymous" as const }, path: "", threadUrl: "", address: "", now: now() };
    const end = streamRun(response, { books, rootId: "abc1", context: async () => context, after: "", now });
    await vi.waitFor(() => expect(response.writableNeedDrain).toBe(true));
    const sent = response.writableLength;

    await store.ingest({ events: [{ runId: "abc1", event: said("more") }] });
    clock.offset = 50_000;
    await vi.waitFor(async () => expect((await books.readTree("abc1"))?.runs[0]?.newest).toBe(2));
    expect([response.destroyed, response.writableLength]).toEqual([false, sent]);
    clock.offset = 61_000;

    await vi.waitFor(() => expect(response.destroyed).toBe(true));
    end();
  });
});

test("a stream ends when its viewer may not read any more", async () => {
  const { startRun, url, pathOf, signedIn, permissions, clock } = await world({ github: { private: true } });
  await startRun("abc1");
  const { cookie } = signedIn("tom");
  const page = await listenTo(`${url}${pathOf("abc1")}/events`, { cookie });
  await page.next();

  permissions.tom = "none";
  clock.offset = 61_000;

  expect(await page.next()).toBeUndefined();
});

test.each(["", "nonsense", "abc1:NaN", "abc1:-1,:,", "../..:1", `${"a:1,".repeat(50_000)}`])(
  "a place like %.20j is none: the newest entries come",
  async (after) => {
    const { startRun, url, pathOf } = await world();
    await startRun("abc1", { events: [said("one")] });

    const page = await listenTo(`${url}${pathOf("abc1")}/events`, { "last-event-id": after.slice(0, 12_000) });
    const opening = await page.next();
    await page.close();

    expect(texts(opening?.entries ?? [])).toEqual(["one"]);
  },
);

test("of thousands of events a page shows the newest, and those before them when asked", async () => {
  const { startRun, get, pathOf } = await world();
  const events = Array.from({ length: 3_000 }, (_, index): RunEvent => said(`sentence ${index}`));
  await startRun("abc1", { events });

  const page = await get(pathOf("abc1"));
  const [, link = ""] = /<li class="earlier"><a href="([^"]+)">Show 100 earlier of 2900/.exec(page.text) ?? [];
  const earlier = await get(link);

  expect(texts([{ html: page.text }])).toEqual(events.slice(2_900).map((_, index) => `sentence ${2_900 + index}`));
  expect(texts([{ html: earlier.text }])).toEqual(
    events.slice(2_800, 2_900).map((_, index) => `sentence ${2_800 + index}`),
  );
});

test("huge results make no huge page: what has no room is behind the way to earlier entries", async () => {
  const { startRun, get, pathOf } = await world();
  const result = (content: string) => ({ llmContent: "", value: { kind: "text" as const, content } });
  await startRun("abc1", {
    events: Array.from(
      { length: 90 },
      (_, index): RunEvent => ({
        type: "tool.finished",
        callId: `c${index}`,
        tool: "read_file",
        result: result("<&>".repeat(100_000)),
      }),
    ),
  });

  const { text } = await get(pathOf("abc1"));

  expect(text.length).toBeLessThan(3_000_000);
  expect(text).toMatch(/Show \d\d earlier of \d\d</);
});
