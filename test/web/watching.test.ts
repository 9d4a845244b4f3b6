import { describe, expect, test } from "vitest";
import type { RunEvent } from "#domain/events.ts";
import { textPreview } from "#domain/preview.ts";
import { samplePreview } from "../support/run-view.ts";
import { heldSecret, webWorlds } from "../support/web-world.ts";

const world = webWorlds();

const preview = samplePreview("@@ -1 +1 @@\n-a + a\n+a + b");

test("anyone with the link can read the task, the transcript and pending approvals without JavaScript", async () => {
  const { startRun, get, pathOf } = await world();
  await startRun("abc1", {
    spec: { task: "fix the sum", threadTitle: "Totals are off by one" },
    value: { handlingCalls: "awaitingApproval" },
    context: { steps: 3, tokens: 1_230 },
    events: [
      { type: "message.received", kind: "request", text: "fix the sum", by: "ada" },
      {
        type: "model.answered",
        text: "I **look** first.",
        calls: [{ callId: "c1", tool: "run_tests", args: { pattern: "sum" } }],
        messages: [],
        usage: { inputTokens: 1_200, outputTokens: 30 },
        finishReason: "tool-calls",
        lastSeenId: 1,
      },
      {
        type: "tool.finished",
        callId: "c1",
        tool: "run_tests",
        result: {
          llmContent: "1 failed",
          value: { kind: "terminal", content: "\u001b[31mnot ok\u001b[0m 1", exitCode: 1, summary: "1 failed" },
        },
      },
    ],
    approvals: [{ preview }],
  });

  const { status, text } = await get(pathOf("abc1"));

  expect(status).toBe(200);
  expect(text).toContain("octo/sums#7</a> Totals are off by one");
  expect(text).toContain("<strong>look</strong>");
  expect(text).toContain('<span class="arguments">sum</span>');
  expect(text).toContain('<span class="ansi-red">not ok</span>');
  expect(text).toContain("Exit code 1");
  expect(text).toContain('<span class="added" data-old="" data-new="1">+a + b');
  expect(text).toMatch(/class="state waiting lit">[^/]*\/>.*Waiting for approval/);
  expect(text).toContain("1.2K of 2M");
  expect(text).toContain("3 of 50");
});

test("a tool call is one row, and calls that only read are grouped", async () => {
  const { startRun, get, pathOf } = await world();
  const usage = { inputTokens: 1, outputTokens: 1 };
  const callOf = (callId: string, tool: string, path: string): RunEvent[] => [
    {
      type: "model.answered",
      text: "",
      calls: [{ callId, tool, args: { path } }],
      messages: [],
      usage,
      finishReason: "tool-calls",
      lastSeenId: 0,
    },
    {
      type: "tool.finished",
      callId,
      tool,
      result: { llmContent: "done", value: { kind: "text", content: "done" }, durationMs: 1_234 },
    },
  ];
  const reads = ["a.js", "b.js", "c.js"].flatMap((path) => callOf(path, "read_file", path));
  const others = [...callOf("c8", "tickets_search_and_close", "x"), ...callOf("c9", "shell", "d.js")];
  await startRun("abc1", { events: [...reads, ...others] });

  const { text } = await get(pathOf("abc1"));

  expect(text.match(/<li class="entry/g)).toHaveLength(5);
  expect(text).toContain("3 read-only calls</summary>");
  expect(text).toMatch(/<code>shell<\/code> <span class="arguments">d\.js<\/span> <span class="result">done · 1\.2 s/);
});

test("the landing page and the favicon are served without a link", async () => {
  const { get } = await world();

  expect((await get("/")).headers.get("location")).toBe("/runs");
  expect((await get("/runs")).text).toContain("Golem Forge is running.");
  expect((await get("/favicon.ico")).headers.get("location")).toBe("/runs/-/assets/favicon.svg");
  expect((await get("/runs/-/assets/favicon.svg")).headers.get("content-type")).toBe("image/svg+xml");
  expect((await get("/elsewhere")).status).toBe(418);
});

describe("a link", () => {
  test.each([
    ["with a wrong key", (path: string) => path.replace(/.$/, (last) => (last === "0" ? "1" : "0"))],
    ["with the key of another run", (_: string, other: string) => `/runs/abc1/${other.split("/").at(-1)}`],
    ["without a key", () => "/runs/abc1"],
    ["with a short key", (path: string) => path.slice(0, -2)],
    ["with its key in capitals", (path: string) => path.toUpperCase().replace("/RUNS/ABC1", "/runs/abc1")],
    ["to a run that does not exist", (_: string, other: string) => other],
    ["with a slash too many", (path: string) => path.replace("abc1/", "abc1//")],
    ["with an encoded slash", (path: string) => path.replace("abc1/", "abc1%2f")],
    ["with .. in its path", (path: string) => `/runs/-/assets/../..${path}`],
    ["with an unknown suffix", (path: string) => `${path}/nothing`],
    ["to entries of a run in another tree", (path: string) => `${path}/entries/other1/5`],
  ])("%s shows nothing", async (_, change) => {
    const { startRun, get, pathOf } = await world();
    await startRun("abc1");

    const { status, text } = await get(change(pathOf("abc1"), pathOf("other1")));

    expect(status).toBe(404);
    expect(text).toContain("Run not found.");
    expect(text).not.toContain("octo");
  });

  test("a link to a child run shows nothing: it is shown on its parent's page", async () => {
    const { startRun, get, pathOf } = await world();
    await startRun("abc1");
    await startRun("child1", {
      spec: { rootId: "abc1", parentId: "abc1", parentCallId: "c1", depth: 1, workerPath: "fixer -> tester" },
      events: [{ type: "message.received", kind: "prompt", text: "test it", by: "ada" }],
    });

    expect((await get(pathOf("child1"))).status).toBe(404);
    expect((await get(pathOf("abc1"))).text).toMatch(/id="run-child1"[\s\S]*fixer -&gt; tester[\s\S]*test it/);
  });

  test("the page shows the workers of the run as a tree, each with what it has used of its limits", async () => {
    const { startRun, get, pathOf } = await world();
    await startRun("abc1", { spec: { workerPath: "fixer" }, context: { steps: 4 } });
    const child = { rootId: "abc1", parentCallId: "c1", workerPath: "fixer -> tester" };
    await startRun("child1", { spec: { ...child, parentId: "abc1", depth: 1 }, context: { steps: 2 } });
    await startRun("grand1", { spec: { ...child, parentId: "child1", depth: 2 }, context: { steps: 1 } });

    const { text } = await get(pathOf("abc1"));

    expect(text).toMatch(
      /id="workers-title".*?<ul><li><a href="#run-abc1">.*?4 of 50 steps.*?<ul><li><a href="#run-child1">.*?2 of 50 steps.*?<ul><li><a href="#run-grand1">.*?1 of 50 steps/s,
    );
  });

  test.each(["PUT", "DELETE", "PATCH", "OPTIONS", "POST"])("a link rejects the method %s", async (method) => {
    const { startRun, url, pathOf } = await world();
    await startRun("abc1");

    expect((await fetch(`${url}${pathOf("abc1")}`, { method })).status).toBe(405);
  });
});

test("pages cannot be cached, framed or indexed, send no referrer, and run only our own script", async () => {
  const { startRun, get, pathOf } = await world();
  await startRun("abc1");

  const { headers, text } = await get(pathOf("abc1"));

  expect(Object.fromEntries(headers)).toMatchObject({
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-robots-tag": "noindex, nofollow",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
  });
  expect(headers.get("content-security-policy")).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/);
  expect(headers.get("content-security-policy")).toMatch(/frame-ancestors 'none'/);
  expect(text).not.toMatch(/<script(?![^>]*src="\/runs\/-\/assets\/(?:run|changes).js")|\sstyle=|\son\w+=|<style/);
});

test("a run of a repository that the deployment no longer serves is not shown", async () => {
  const { startRun, get, pathOf } = await world({ repositories: ["octo/other"] });
  await startRun("abc1");

  expect((await get(pathOf("abc1"))).status).toBe(404);
});

describe("a private repository", () => {
  const github = { private: true };

  test("a private repository requires signing in as someone who can read it, even with a valid link", async () => {
    const { startRun, get, pathOf, signedIn, clock, permissions } = await world({ github });
    await startRun("abc1");
    const as = (login: string) => get(pathOf("abc1"), { cookie: signedIn(login).cookie });

    const guest = await get(pathOf("abc1"));
    expect([guest.status, guest.text.includes("Totals")]).toEqual([401, false]);
    expect(guest.text).toContain(`/runs/-/sign-in?to=${encodeURIComponent(pathOf("abc1"))}`);
    expect((await as("stranger")).status).toBe(403);
    expect((await as("tom")).status).toBe(200);

    permissions.tom = "none";
    clock.offset = 40_000;
    expect((await as("tom")).status).toBe(200);
    // An answer is used for a minute, however often the page is read.
    clock.offset = 61_000;
    expect((await as("tom")).status).toBe(403);
  });

  test("a repository counts as private while GitHub does not say", async () => {
    const { startRun, get, pathOf, outage, clock } = await world();
    await startRun("abc1");

    outage.active = true;
    const during = await get(pathOf("abc1"));
    outage.active = false;
    clock.offset = 2_100;
    const after = await get(pathOf("abc1"));

    expect([during.status, after.status]).toEqual([401, 200]);
  });

  test("a private repository cannot be read while GitHub does not answer, and can be again two seconds later", async () => {
    const { startRun, get, pathOf, signedIn, outage, clock } = await world({ github });
    await startRun("abc1");
    const { cookie } = signedIn("tom");

    outage.active = true;
    const during = await get(pathOf("abc1"), { cookie });
    outage.active = false;
    const soon = await get(pathOf("abc1"), { cookie });
    clock.offset = 2_100;
    const after = await get(pathOf("abc1"), { cookie });

    expect([during.status, soon.status, after.status]).toEqual([503, 503, 200]);
    expect(during.text).toContain("GitHub did not answer");
  });

  test("a private repository is neither shown nor linked to if sign-in is not set up", async () => {
    const { startRun, get, pathOf, pages } = await world({ github, signIn: false });
    const spec = await startRun("abc1");

    expect((await get(pathOf("abc1"))).status).toBe(403);
    expect(await pages.linkTo(spec)).toBeUndefined();
  });
});

test("without an OAuth client the page is read-only and points to the thread", async () => {
  const { startRun, get, post, pathOf, pages, url } = await world({ signIn: false });
  const spec = await startRun("abc1", { approvals: [{}] });

  const { text } = await get(pathOf("abc1"));

  expect(await pages.linkTo(spec)).toBe(`${url}${pathOf("abc1")}`);
  expect(text).toContain("/approve k0mq");
  expect(text).not.toContain("<form");
  expect((await post(`${pathOf("abc1")}/stop`, { as: "ada" })).status).toBe(401);
});

test("the app's secrets appear on no page, in no event stream and in no earlier entry", async () => {
  const { startRun, get, pathOf, url, live } = await world();
  const long = `${"x".repeat(390)}${heldSecret}`;
  const result = { llmContent: heldSecret, value: { kind: "text" as const, content: heldSecret, summary: heldSecret } };
  await startRun("abc1", {
    value: { handlingCalls: "executing" },
    context: { openCalls: [{ callId: "c1", tool: "shell", answeredBy: "tool", status: "running" }] },
    events: [
      {
        type: "model.answered",
        text: heldSecret,
        calls: [{ callId: "c1", tool: "shell", args: { command: long } }],
        messages: [],
        usage: { inputTokens: 1, outputTokens: 1 },
        finishReason: "stop",
        lastSeenId: 0,
      },
      { type: "tool.finished", callId: "c1", tool: "shell", result },
      { type: "model.failed", reason: heldSecret, retryable: true },
    ],
    approvals: [{ args: { path: heldSecret }, preview: textPreview(heldSecret), reason: heldSecret }],
  });
  live.add("abc1", { source: "c1", text: `${heldSecret}\nline two\n${heldSecret.slice(0, 12)}` });

  const { text } = await get(pathOf("abc1"));
  const [stream = ""] = await readStream(`${url}${pathOf("abc1")}/events`, 1);
  const earlier = await get(`${pathOf("abc1")}/entries/abc1/3`);

  for (const shown of [text, stream, earlier.text]) expect(shown).not.toContain(heldSecret.slice(0, 12));
  expect(text).toContain("line two");
  expect(text).not.toContain("Edit arguments");
});

/** The data of the first so many events of a stream. */
async function readStream(url: string, count: number): Promise<string[]> {
  const response = await fetch(url);
  const found: string[] = [];
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    found.push(
      ...text
        .split("\n\n")
        .slice(0, -1)
        .filter((one) => one.includes("data: ")),
    );
    text = text.slice(text.lastIndexOf("\n\n") + 2);
    if (found.length >= count) break;
  }
  return found;
}

test("the page of a run whose log was removed says so, and still says how the run ended", async () => {
  const { startRun, store, get, pathOf } = await world();
  await startRun("abc1", {
    spec: { task: "fix the sum" },
    context: { outcome: { kind: "failed", reason: "No tests." } },
  });
  const run = await store.findRun("abc1");
  if (!run || run.unreadable) throw new Error("The run cannot be read.");
  const { version, snapshot } = run;
  const ended = { ...snapshot, value: "ended" as const };
  const advance = {
    runId: "abc1",
    version,
    consumed: [],
    seen: 0,
    snapshot: ended,
    status: "done" as const,
    effects: [],
  };
  await store.advance({ ...advance, cancelEffects: { kinds: ["sandbox.open", "status.show", "model.call"] } });
  const expired = { runsEndedBefore: Date.now() + 1_000, deliveriesBefore: 0 };

  expect(await store.removeExpired(expired)).toBe(true);

  const { text } = await get(pathOf("abc1"));
  expect(text).toContain("The log of this run was removed on ");
  expect(text).toContain("No tests.");
});

test("Try again says what it does to a run that has ended, and to one whose model call failed", async () => {
  const { startRun, get, pathOf, signedIn } = await world();
  await startRun("abc1", { value: "ended", context: { outcome: { kind: "failed", reason: "No tests." } } });
  await startRun("abc2", { value: "retrying" });
  const as = { cookie: signedIn("mia").cookie };

  const { text: ended } = await get(pathOf("abc1"), as);
  const { text: retrying } = await get(pathOf("abc2"), as);

  expect(ended).toContain("Starts the task again from the beginning.");
  expect(retrying).toContain("Calls the model again at once.");
  // A run of less than a second has no timeline.
  expect(ended).not.toContain(">Time<");
});
