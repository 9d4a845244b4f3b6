import { SSEStreamingApi } from "hono/streaming";
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

test("an open page receives new entries and continues where it was after reconnecting", async () => {
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

  expect(opening?.parts.map(({ id }) => id)).toEqual([
    "status",
    "outcome",
    "questions",
    "plan",
    "limits",
    "timeline",
    "workers",
    "commands",
    "chart",
    "live-abc1",
  ]);
  expect(texts(opening?.entries ?? [])).toEqual(["one"]);
  expect(second?.parts.filter(({ id }) => id !== "timeline")).toEqual([]);
  expect(texts(second?.entries ?? [])).toEqual(["two"]);
  expect(texts(third?.entries ?? [])).toEqual(["three"]);
});

test("an approval request appears and disappears once it is decided", async () => {
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

test("a child run appears with its own transcript", async () => {
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

test("while the model writes the arguments of a call, the page names the file and how much is written", async () => {
  const { startRun, live, url, pathOf } = await world();
  await startRun("abc1");
  const input = (delta: string) => ({ source: "model/1", input: { callId: "c1", tool: "write_file", delta } });
  live.add("abc1", { source: "model/1", text: "I write **the docs**. " });
  live.add("abc1", input('{"path": "docs/long.md", "content": "'));
  live.add("abc1", input("x".repeat(12_000)));

  const page = await listenTo(`${url}${pathOf("abc1")}/events`);
  const shown = (await page.next())?.parts.find(({ id }) => id === "live-abc1")?.html;
  await page.close();

  expect(shown).toContain("I write <strong>the docs</strong>.");
  expect(shown).toContain("Writing <code>docs/long.md</code> … 12 KB");
});

test("the end of live output is shown in whole words until the tool or model finishes", async () => {
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
  expect(after?.parts.map(({ id }) => id)).toEqual(["live-abc1"]);
  expect(after?.parts[0]?.html).toContain("<code>shell</code>");
  expect(after?.parts[0]?.html).not.toContain("<pre>");
});

describe("a flood", () => {
  test("a flood of viewers is limited per run, and leaving makes room", async () => {
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

  test("a flood of requests for one run is limited per minute and does not affect other runs", async () => {
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

  test("a client that does not read is sent nothing more and disconnected after a minute", async () => {
    const { startRun, views, now, clock } = await world();
    await startRun("abc1", { events: [said("x".repeat(60_000))] });
    const { writable, readable } = new TransformStream();
    const stream = new SSEStreamingApi(writable, readable);
    const write = vi.spyOn(stream, "write");
    const closeConnection = vi.fn();
    const page = { viewer: { kind: "anonymous" as const }, path: "", threadUrl: "", repositoryUrl: "", now: now() };

    const streaming = streamRun(stream, {
      views,
      rootId: "abc1",
      find: async () => {
        const tree = await views.readTree("abc1");
        return tree && { tree, page };
      },
      after: "",
      closeConnection,
      now,
    });
    // The stream buffers one message: the second one waits for the client.
    await vi.waitFor(() => expect(write).toHaveBeenCalledTimes(2), { timeout: 60_000 });
    clock.offset = 50_000;
    await stream.sleep(600);
    const early = closeConnection.mock.calls.length;
    clock.offset = 61_000;
    await streaming;

    expect([early, closeConnection.mock.calls.length, write.mock.calls.length]).toEqual([0, 1, 2]);
  });
});

test("an event stream ends when its viewer loses access, at the latest a minute later", async () => {
  const { startRun, store, get, url, pathOf, signedIn, permissions, clock } = await world({
    github: { private: true },
  });
  await startRun("abc1");
  const { cookie } = signedIn("tom");
  await get(pathOf("abc1"), { cookie });
  clock.offset = 59_000;
  const page = await listenTo(`${url}${pathOf("abc1")}/events`, { cookie });
  await page.next();

  permissions.tom = "none";
  clock.offset = 61_000;
  await store.ingest({ events: [{ runId: "abc1", event: said("secret") }] });

  for (let change = await page.next(); change; change = await page.next()) expect(change.entries).toEqual([]);
});

test("an event stream ends when the database fails, which is reported", async () => {
  const { startRun, store, url, pathOf, errors } = await world();
  await startRun("abc1");
  const page = await listenTo(`${url}${pathOf("abc1")}/events`);
  await page.next();

  await store.close();
  while (await page.next());

  expect(errors).toHaveLength(1);
});

test.each(["", "nonsense", "abc1:NaN", "abc1:-1,:,", "../..:1", `${"a:1,".repeat(50_000)}`])(
  "an invalid cursor such as %.20j gives the newest entries",
  async (after) => {
    const { startRun, url, pathOf } = await world();
    await startRun("abc1", { events: [said("one")] });

    const page = await listenTo(`${url}${pathOf("abc1")}/events`, { "last-event-id": after.slice(0, 12_000) });
    const opening = await page.next();
    await page.close();

    expect(texts(opening?.entries ?? [])).toEqual(["one"]);
  },
);

test("a page shows the newest of thousands of events and loads earlier ones on request", async () => {
  const { startRun, get, pathOf } = await world();
  const events = Array.from({ length: 3_000 }, (_, index): RunEvent => said(`sentence ${index}`));
  await startRun("abc1", { events });

  const page = await get(pathOf("abc1"));
  const [, link = ""] = /<li class="earlier"><a href="([^"]+)">Show 100 of 2900 earlier entries/.exec(page.text) ?? [];
  const earlier = await get(link);

  expect(texts([{ html: page.text }])).toEqual(events.slice(2_900).map((_, index) => `sentence ${2_900 + index}`));
  expect(texts([{ html: earlier.text }])).toEqual(
    events.slice(2_800, 2_900).map((_, index) => `sentence ${2_800 + index}`),
  );
});

test("huge results do not make a huge page: entries beyond its limit are loaded on request", async () => {
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
  expect(text).toMatch(/Show \d\d of \d\d earlier entries</);
});
