import { describe, expect, test } from "vitest";
import { type WebWorld, webWorlds } from "../support/web-world.ts";

const world = webWorlds();

const digest = "d".repeat(64);
const decision = { approval: "k0mq", digest };

/** A run that waits for one approval, with the path of its page. */
async function waiting(options: Parameters<typeof world>[0] = {}) {
  const made = await world(options);
  const spec = await made.startRun("abc1", {
    value: { handlingCalls: "awaitingApproval" },
    context: {
      openCalls: [{ callId: "call-k0mq", tool: "write_file", answeredBy: "tool", status: "awaitingApproval" }],
    },
    approvals: [{}],
  });
  return { ...made, spec, path: made.pathOf("abc1") };
}

async function expectUntouched({ store, eventsOf }: WebWorld): Promise<void> {
  expect((await store.findApproval("k0mq"))?.status).toBe("pending");
  expect(await eventsOf("abc1")).toEqual([]);
}

test("a signed-in person with write access approves a request", async () => {
  const { post, store, path, eventsOf } = await waiting();

  const answer = await post(`${path}/approve`, { as: "mia", fields: { ...decision, session: "yes" } });

  expect(answer).toEqual({ status: 200, text: '{"message":"Approved k0mq."}' });
  expect(await store.findApproval("k0mq")).toMatchObject({
    status: "approved",
    decidedBy: "mia",
    via: "page",
    remember: "session",
  });
  expect(await eventsOf("abc1")).toMatchObject([{ type: "approval.granted", by: "mia", via: "page" }]);
});

test("the pull request of a run is marked ready, and follows its base branch", async () => {
  const { startRun, pathOf, post, get, signedIn, eventsOf, github, issue } = await world();
  const pull = await github.createPullRequest({ head: "fix", base: "main", title: "Fix", body: "", draft: true });
  // The run was started on this pull request.
  pull.number = issue.number;
  await startRun("abc1", { value: "idle", context: { pullRequest: pull.number } });
  const path = pathOf("abc1");

  expect((await get(path, { cookie: signedIn("mia").cookie })).text).toContain(`action="${path}/ready"`);
  expect((await post(`${path}/ready`, { as: "mia" })).text).toContain(`#${pull.number} is ready for review.`);
  expect((await post(`${path}/update`, { as: "mia" })).status).toBe(200);
  pull.state = "closed";
  const closed = await post(`${path}/ready`, { as: "mia" });

  expect(pull.draft).toBe(false);
  expect(JSON.stringify(await eventsOf("abc1"))).toContain(
    "@mia asked for this on the run page. Merge the branch main",
  );
  expect(closed).toMatchObject({
    status: 409,
    text: expect.stringContaining(`Pull request #${pull.number} is not open.`),
  });
});

test("the commands of a page concern its run, and no other of the thread", async () => {
  const { startRun, pathOf, post, get, signedIn, eventsOf, store } = await world();
  await startRun("abc1", { value: "retrying", context: { pullRequest: 7 } });
  await startRun("abc2", { value: "idle" });
  const path = pathOf("abc1");
  const send = async (action: string, fields = {}) => (await post(`${path}/${action}`, { as: "mia", fields })).text;

  const { text: page } = await get(path, { cookie: signedIn("mia").cookie });
  const answers = [
    await send("retry"),
    await send("model", { model: "openai:b" }),
    await send("model", { model: "openai:c" }),
    await send("undo"),
    await send("exit"),
    await send("say", { text: "Rename it." }),
    await send("stop"),
    await send("cancel"),
  ];

  for (const action of ["retry", "model", "undo", "exit"]) expect(page).toContain(`action="${path}/${action}"`);
  expect(answers.join("\n")).toMatch(
    /Trying again[\s\S]*use openai:b\.[\s\S]*There is no openai:c\.[\s\S]*Confirm it there[\s\S]*ends with what/,
  );
  expect(await eventsOf("abc1")).toMatchObject([
    { type: "retry.requested", by: "mia", via: "page" },
    { type: "model.changed", model: "openai:b" },
    { type: "run.exit" },
    { type: "message.received", text: "Rename it." },
    { type: "run.stop" },
    { type: "run.cancel" },
  ]);
  expect(await eventsOf("abc2")).toEqual([]);
  const effect = await store.claimEffect("abc1", "work", Date.now());
  expect(effect?.request).toMatchObject({ kind: "command.run", by: "mia", command: { args: ["undo_push"] } });
});

test("an approval can be revoked until its call begins", async () => {
  const { post, get, signedIn, store, path } = await waiting();
  await post(`${path}/approve`, { as: "mia", fields: decision });

  expect((await get(path, { cookie: signedIn("mia").cookie })).text).toContain(`action="${path}/revoke"`);
  const revoked = await post(`${path}/revoke`, { as: "mia", fields: { approval: "k0mq", reason: "wait" } });
  const late = await post(`${path}/revoke`, { as: "mia", fields: { approval: "k0mq" } });

  expect(revoked).toEqual({ status: 200, text: '{"message":"Revoked k0mq."}' });
  expect(late).toMatchObject({ status: 409, text: expect.stringContaining("has been revoked already") });
  expect(await store.findApproval("k0mq")).toMatchObject({ status: "revoked", revoked: { by: "mia", note: "wait" } });
});

test("where two people have to approve, the page shows who has", async () => {
  const { post, get, signedIn, path } = await waiting({
    github: {
      files: { ".github/golem-forge.yml": "approvals: [{ required: 2, exclude: nobody }]\n" },
      permissions: { ada: "write", mia: "admin" },
    },
  });

  const first = await post(`${path}/approve`, { as: "mia", fields: decision });

  expect(first.text).toContain("more people have to approve");
  expect((await get(path, { cookie: signedIn("ada").cookie })).text).toContain(
    "<strong>1 of 2 approvals</strong> (by mia)",
  );
});

test("a request is denied with a reason or approved with edited arguments", async () => {
  const { post, store, path, startRun, pathOf } = await waiting();
  await startRun("abc2", { approvals: [{ id: "other" }] });

  await post(`${path}/deny`, { as: "mia", fields: { ...decision, reason: "wrong branch" } });
  const fields = { approval: "other", digest, arguments: '{"path":"B.md"}' };
  await post(`${pathOf("abc2")}/approve`, { as: "mia", fields });

  expect(await store.findApproval("k0mq")).toMatchObject({ status: "denied", note: "wrong branch" });
  expect(await store.findApproval("other")).toMatchObject({ status: "approved", changedArgs: { path: "B.md" } });
});

test("messages and stops from the page are recorded with the person's name and the page", async () => {
  const { post, eventsOf, path, runs, spec } = await waiting();

  await post(`${path}/say`, { as: "mia", fields: { text: "use the other file" } });
  await post(`${path}/stop`, { as: "mia" });

  expect(await eventsOf("abc1")).toMatchObject([
    { type: "message.received", kind: "comment", text: "use the other file", via: "page" },
    { type: "run.stop", by: "mia", via: "page" },
  ]);
  expect((await runs.listRunViews(spec.origin))[0]?.log).toEqual([
    "@mia says on the run page: use the other file",
    "Paused by @mia on the run page",
  ]);
});

test("a stopped run is resumed with instructions unless its thread is closed", async () => {
  const { post, eventsOf, startRun, pathOf, issue } = await world();
  await startRun("abc1", { value: "interrupted" });
  const resume = () => post(`${pathOf("abc1")}/resume`, { as: "mia", fields: { text: "carefully" } });

  issue.state = "closed";
  expect(await resume()).toMatchObject({ status: 409, text: expect.stringContaining("closed or locked") });
  issue.state = "open";
  expect((await resume()).status).toBe(200);

  expect(await eventsOf("abc1")).toMatchObject([
    { kind: "comment", text: "carefully" },
    { type: "run.resume", by: "mia" },
  ]);
});

describe("a command is refused for", () => {
  test.each<[string, Parameters<WebWorld["post"]>[1] | ((made: WebWorld) => Parameters<WebWorld["post"]>[1]), number]>([
    ["a link alone", { fields: decision }, 401],
    ["a page of another site", { as: "mia", fields: decision, headers: { origin: "https://evil.example" } }, 403],
    [
      "a page without an origin on another site",
      { as: "mia", fields: decision, headers: { origin: "null", "sec-fetch-site": "cross-site" } },
      403,
    ],
    ["a page without an origin", { as: "mia", fields: decision, headers: { origin: "null" } }, 403],
    ["a cross-site request", { as: "mia", fields: decision, headers: { "sec-fetch-site": "cross-site" } }, 403],
    ["a form without its key", { as: "mia", fields: { ...decision, form: "" } }, 403],
    ["another person's form", (made) => ({ as: "mia", fields: { ...decision, form: made.signedIn("ada").form } }), 403],
    ["JSON", { as: "mia", fields: decision, headers: { "content-type": "application/json" } }, 415],
    ["a form that is too long", { as: "mia", fields: { ...decision, reason: "x".repeat(600_000) } }, 413],
    ["a person with read access", { as: "tom", fields: decision }, 409],
    ["a person without access", { as: "stranger", fields: decision }, 409],
    ["an outdated digest", { as: "mia", fields: { ...decision, digest: "e".repeat(64) } }, 409],
    ["no digest", { as: "mia", fields: { approval: "k0mq" } }, 409],
    ["an approval of another run", { as: "mia", fields: { ...decision, approval: "other" } }, 409],
    ["all requests at once", { as: "mia", fields: { ...decision, approval: "all" } }, 409],
    ["arguments that are not an object", { as: "mia", fields: { ...decision, arguments: "[1]" } }, 409],
  ])("%s", async (_, sent, status) => {
    const made = await waiting();
    await made.startRun("abc2", { approvals: [{ id: "other" }] });

    const answer = await made.post(`${made.path}/approve`, typeof sent === "function" ? sent(made) : sent);

    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.text)).toMatchObject({ message: expect.stringMatching(/\w/) });
    await expectUntouched(made);
    expect((await made.store.findApproval("other"))?.status).toBe("pending");
  });

  test.each([
    ["changed", (cookie: string) => cookie.replace(/=(.)/, (_, first) => `=${first === "e" ? "f" : "e"}`)],
    ["not signed", (cookie: string) => cookie.replace(/\..*/, "")],
    ["signed with another key", (cookie: string) => `${cookie.slice(0, -4)}AAAA`],
    ["of another kind", (cookie: string) => cookie.replace("session", "sign-in")],
  ])("a cookie that is %s", async (_, change) => {
    const made = await waiting();
    const { cookie, form } = made.signedIn("mia");

    const answer = await made.post(`${made.path}/approve`, {
      fields: { ...decision, form },
      headers: { cookie: change(cookie) },
    });

    expect(answer.status).toBe(401);
    await expectUntouched(made);
  });

  test("a session that is two hours old", async () => {
    const made = await waiting();
    const { cookie, form } = made.signedIn("mia");
    made.clock.offset = 2 * 60 * 60_000 + 1;

    const answer = await made.post(`${made.path}/stop`, { fields: { form }, headers: { cookie } });

    expect(answer.status).toBe(401);
  });
});

test("a command is refused after the person lost write access, even if the page still shows its button", async () => {
  const { post, path, permissions, get, signedIn, eventsOf } = await waiting();
  const page = await get(path, { cookie: signedIn("mia").cookie });
  await post(`${path}/say`, { as: "mia", fields: { text: "one" } });

  permissions.mia = "read";
  const second = await post(`${path}/say`, { as: "mia", fields: { text: "two" } });

  expect(page.text).toContain(">Approve</button>");
  expect(second).toMatchObject({ status: 409, text: expect.stringContaining("You need write access") });
  expect(await eventsOf("abc1")).toHaveLength(1);
});

test("people without write access see no command forms", async () => {
  const { get, path, signedIn } = await waiting();

  const { text } = await get(path, { cookie: signedIn("tom").cookie });

  expect(text).toContain("Read-only: you need write access");
  expect(text).not.toMatch(/action="\/runs\/abc1/);
});

test("a second person must approve if the repository requires it", async () => {
  const made = await waiting({
    github: {
      files: { ".github/golem-forge.yml": "second_person: true\n" },
      permissions: { ada: "write", mia: "admin" },
    },
  });

  const own = await made.post(`${made.path}/approve`, { as: "ada", fields: decision });
  await expectUntouched(made);
  const other = await made.post(`${made.path}/approve`, { as: "mia", fields: decision });

  expect(own).toMatchObject({ status: 409, text: expect.stringContaining("requires approval by a second person") });
  expect(other.status).toBe(200);
});

test("the first decision wins, and the second person is told who made it", async () => {
  const { post, path } = await waiting();

  const both = await Promise.all([
    post(`${path}/approve`, { as: "ada", fields: decision }),
    post(`${path}/deny`, { as: "mia", fields: decision }),
  ]);

  expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
  expect(both.find(({ status }) => status === 409)?.text).toMatch(/was already (approved|denied) by @(ada|mia)/);
});

test("each person's commands per minute are limited", async () => {
  const { post, path, clock } = await waiting();
  const say = () => post(`${path}/say`, { as: "mia", fields: { text: "again" } });

  for (let times = 0; times < 30; times++) await say();

  expect((await say()).status).toBe(429);
  clock.offset = 61_000;
  expect((await say()).status).toBe(200);
});

test("without JavaScript a form leads back to the run page and an error is shown on a separate page", async () => {
  const { post, path } = await waiting();

  const done = await post(`${path}/say`, { as: "mia", fields: { text: "hello" }, headers: { accept: "text/html" } });
  const refused = await post(`${path}/say`, { as: "tom", fields: { text: "hello" }, headers: { accept: "text/html" } });

  expect(done.status).toBe(303);
  expect(refused.text).toContain(`href="${path}">Back to the run`);
});

test("a question is shown with a button for each suggested answer, and its form answers that question only", async () => {
  const { startRun, get, post, pathOf, signedIn, eventsOf } = await world();
  const questions = [{ question: "Delete it?" }, { question: "Which **color**?", options: ["Red", "Green"] }];
  const calls = questions.map((args, index) => ({ callId: `c${index}`, tool: "ask_user", args }));
  await startRun("abc1", {
    value: { handlingCalls: "awaitingAnswer" },
    context: {
      steps: 1,
      openCalls: calls.map(({ callId, tool }) => ({ callId, tool, answeredBy: "person", status: "running" })),
    },
    events: [
      {
        type: "model.answered",
        text: "",
        calls,
        messages: [],
        usage: { inputTokens: 1, outputTokens: 1 },
        finishReason: "tool-calls",
        lastSeenId: 0,
      },
    ],
  });
  const path = pathOf("abc1");

  const readOnly = await get(path, { cookie: signedIn("tom").cookie });
  const page = await get(path, { cookie: signedIn("mia").cookie });
  const [, question = ""] = /name="question" value="([^"]+)"><button name="text" value="Red"/.exec(page.text) ?? [];
  await post(`${path}/say`, { as: "mia", fields: { text: "Red", question } });
  const late = await post(`${path}/say`, { as: "mia", fields: { text: "Green", question } });
  await post(`${path}/say`, { as: "mia", fields: { text: "Keep it" } });

  expect(readOnly.text).toContain("Read-only: you need write access to answer.");
  expect(readOnly.text).not.toMatch(/answer with a comment/i);
  expect(page.text).toContain("Which <strong>color</strong>?");
  expect(page.text).toMatch(/<button name="text" value="Red">Red<\/button><button name="text" value="Green">/);
  expect(late).toMatchObject({ status: 409, text: expect.stringContaining("This question was answered already") });
  expect((await eventsOf("abc1")).slice(-2)).toMatchObject([
    { type: "question.answered", callId: "c1", step: 1, text: "Red", by: "mia" },
    { type: "question.answered", callId: "c0", text: "Keep it" },
  ]);
});

test("the cost limit is raised from the page of a run that has used it up", async () => {
  const { startRun, get, post, pathOf, signedIn, eventsOf } = await world({
    github: {
      files: { ".github/golem-forge.yml": "approvals: [{ people: [mia] }]\n" },
      permissions: { ada: "write", mia: "write" },
    },
  });
  const path = pathOf("abc1");
  await startRun("abc1", { value: "awaitingBudget" });

  const page = await get(path, { cookie: signedIn("mia").cookie });
  const wrong = await post(`${path}/approve`, { as: "mia", fields: { raise: "-1" } });
  const refused = await post(`${path}/approve`, { as: "ada", fields: { raise: "2.50" } });
  const answer = await post(`${path}/approve`, { as: "mia", fields: { raise: "2.50" } });

  // On a phone, the commands follow the transcript, which may be long.
  expect(page.text).toMatch(/Raise the cost limit by[\s\S]*>Transcript</);
  expect(refused).toMatchObject({ status: 409, text: expect.stringContaining("mia") });
  expect(wrong).toMatchObject({ status: 409, text: expect.stringContaining("Enter an amount in US dollars") });
  expect(answer).toEqual({ status: 200, text: expect.stringMatching(/The cost limit is now \$\d+\.\d\d\./) });
  expect(await eventsOf("abc1")).toMatchObject([{ type: "cost_limit.raised", by: "mia", via: "page" }]);
});

test("a run is cancelled from its page", async () => {
  const { post, path, eventsOf } = await waiting();

  const answer = await post(`${path}/cancel`, { as: "mia" });

  expect(answer).toEqual({ status: 200, text: '{"message":"Cancelled."}' });
  expect(await eventsOf("abc1")).toMatchObject([{ type: "run.cancel", by: "mia", via: "page" }]);
});
