import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { ModelReply } from "#playground/model/model-server.ts";
import { questionName } from "#runtime/read-log.ts";
import { readView } from "#runtime/views/read-view.ts";
import { previewText } from "#ui/request-blocks.ts";
import { startAnthropic } from "../support/anthropic-server.ts";
import type { GitHubWorld } from "../support/github-world.ts";
import { origin, type RuntimeWorldOptions, runtimeWorlds, turns } from "../support/runtime-world.ts";
import { sampleRun, sampleSnapshot, sampleStep } from "../support/store-samples.ts";

const world = runtimeWorlds();

const openPull = { calls: [{ name: "open_pull_request", args: { title: "Fix the sum", body: "It was off." } }] };
const write = { calls: [{ name: "write_file", args: { path: "new.js", content: "export const two = 2;\n" } }] };

test("a worker writes, requests an approval, and opens the pull request from its own branch", async () => {
  const { runs, approvalRequested, ended, github } = await world({
    script: turns(write, openPull, { text: "Opened it." }),
  });
  const { id } = await runs.startRun({ origin, worker: "fixer", text: "please" });

  const approval = await approvalRequested();
  expect(approval).toMatchObject({ tool: "open_pull_request", status: "pending", workerPath: "fixer" });
  expect(previewText(approval.preview)).toContain("export const two = 2;");
  await runs.decideApprovals(origin, { by: "ada", target: approval.id, approve: true });

  expect((await ended()).outcome).toEqual({ kind: "answered", text: "Opened it." });
  expect(await github.pulls()).toMatchObject([
    { title: "Fix the sum", pull: { head: `golem/7-${id}`, base: "main", draft: true } },
  ]);
  expect(await github.git("show", `golem/7-${id}:new.js`)).toContain("export const two = 2;");
});

test("a run knows what earlier runs of its worker in this repository have cost: the middle of their costs", async () => {
  const { runs, store, github } = await world({ script: turns() });
  const here = { ...origin, repositoryId: github.hub.repository().id };
  for (const [index, cost] of [0.2, 0.3, 0.1].entries()) {
    const run = sampleRun(`r${index}`, [], { origin: { ...here, thread: 8 }, createdAt: index });
    const snapshot = sampleSnapshot("ended", { cost, outcome: { kind: "answered" } });
    await store.ingest({ run, events: [] });
    await store.advance(sampleStep(run.spec.id, { status: "done", snapshot }));
  }

  const { usualCost } = await runs.startRun({ origin: here, worker: "fixer", text: "please" });
  const other = await runs.startRun({ origin: here, worker: "explainer", text: "please" });

  expect(usualCost).toBe(0.2);
  expect(other.usualCost).toBeUndefined();
});

test("a pull request that GitHub does not find is not taken for one from this repository", async () => {
  const { runs } = await world({ script: turns() });
  const started = runs.startRun({
    origin: { ...origin, thread: 99, isPullRequest: true },
    worker: "fixer",
    text: "go",
  });

  await expect(started).rejects.toThrow("Pull request #99 was not found.");
});

test("an effect that ends after the process has stopped is not an error, since the next process performs it again", async () => {
  const { runs, runtime, store, frontEnd, errors } = await world({ script: turns({ text: "Done." }) });
  const [posting, posted] = [Promise.withResolvers<void>(), Promise.withResolvers<number>()];
  frontEnd.showOutcome = () => {
    posting.resolve();
    return posted.promise;
  };
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  await posting.promise;

  await runtime.shutDown(0);
  await store.close();
  const idle = runtime.idle();
  posted.resolve(1);
  await idle;

  expect(errors).toEqual([]);
});

test("the reason of a denial reaches the model", async () => {
  const { runs, approvalRequested, ended, model, github } = await world({
    script: turns(write, openPull, { text: "I left it." }),
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });

  await runs.decideApprovals(origin, {
    by: "ada",
    target: (await approvalRequested()).id,
    approve: false,
    note: "wrong branch",
  });

  await ended();
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("wrong branch");
  expect(await github.pulls()).toEqual([]);
});

test("an approval does not count when the approver has lost write access before the call runs", async () => {
  const { runs, approvalRequested, ended, github, model } = await world({ script: turns(write, openPull) });
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  const { id } = await approvalRequested();

  await runs.decideApprovals(origin, { by: "ada", target: id, approve: true });
  github.setPermission("ada", "read");

  await ended();
  expect(await github.pulls()).toEqual([]);
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("no longer confirms write access");
});

test("when the tools of a worker cannot be opened, neither the log nor the result blames the model", async () => {
  const worker =
    "---\nname: linter\ndescription: Lints.\ntoolsets: { custom: { module: ./tools.ts, tools: [lint] } }\n---\nLint the code.";
  const { runs, ended, model } = await world({
    script: turns({ text: "Never asked." }),
    github: { files: { ".github/workers/linter.worker": worker } },
  });

  await runs.startRun({ origin, worker: "linter", text: "please" });

  const { log, outcome } = await ended();
  const reason = outcome?.kind === "failed" ? outcome.reason : "";
  expect(reason).toMatch(/custom tools/);
  expect(log.at(-1)).toBe(`The step failed: ${reason}`);
  expect(model.requests).toEqual([]);
});

test("an answer that cannot be used counts toward the run's usage", async () => {
  const usage = { inputTokens: 100, outputTokens: 7 };
  const { runs, ended } = await world({ script: turns({ text: "I would", finishReason: "content_filter", usage }) });

  await runs.startRun({ origin, worker: "fixer", text: "please" });

  const view = await ended();
  expect(view.outcome).toMatchObject({ kind: "failed", reason: expect.stringContaining("content filter") });
  expect(view.usage).toMatchObject(usage);
});

test("a run that waits for a person is not in memory", async () => {
  const { runs, runtime, approvalRequested } = await world({ script: turns(write, openPull) });
  await runs.startRun({ origin, worker: "fixer", text: "please" });

  await approvalRequested();
  await runtime.idle();

  expect(runtime.activeRuns()).toBe(0);
});

test("a question is answered by the next plain comment, whenever it comes", async () => {
  const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
  const { runs, runtime, waitUntilShown, ended, model } = await world({ script: turns(ask, { text: "Thanks." }) });
  const { id } = await runs.startRun({ origin, worker: "fixer", text: "please" });

  expect((await waitUntilShown(({ kind }) => kind === "question")).text).toContain("Which sum?");
  await runtime.idle();
  expect(await runs.deliverMessage(origin, { by: "ada", text: "The second." })).toBe(id);
  // The run has not read the answer yet.
  expect(await runs.deliverMessage(origin, { by: "ada", text: "And rename it." })).toBe(id);

  await ended();
  const read = JSON.stringify(model.requests.at(-1)?.messages);
  expect(read).toContain("@ada answered: The second.");
  expect(read).toContain("@ada says: And rename it.");
});

test("a comment that was written before a question was posted is a message and not its answer", async () => {
  const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
  const { runs, runtime, store, waitUntilShown, ended, model } = await world({
    script: turns(ask, { text: "Thanks." }),
  });
  const { id } = await runs.startRun({ origin, worker: "fixer", text: "please" });
  await waitUntilShown(({ kind }) => kind === "question");
  await runtime.idle();
  const call = (await store.log(id)).flatMap(({ event }) => (event.type === "model.answered" ? event.calls : []))[0];
  const posted = (await store.findPost(questionName(id, 1, call?.callId ?? "")))?.commentId ?? Number.NaN;

  expect([await runs.mayAnswer(origin, posted - 1), await runs.mayAnswer(origin, posted + 1)]).toEqual([false, true]);
  await runs.deliverMessage(origin, { by: "ada", text: "Rename it, too.", commentId: posted - 1 });
  await runs.deliverMessage(origin, { by: "ada", text: "The second.", commentId: posted + 1 });

  await ended();
  const read = JSON.stringify(model.requests.at(-1)?.messages);
  expect(read).toContain("@ada answered: The second.");
  expect(read).toContain("Rename it, too.");
  expect(await runs.mayAnswer(origin, posted + 2)).toBe(false);
});

test("a plain answer goes to the question that was asked first, whichever run changed last", async () => {
  const ask = (question: string) => ({ name: "ask_user", args: { question } });
  const remove = { name: "delete_file", args: { path: "sum.js" } };
  const { runs, approvalRequested, runtime, waitUntilShown, model } = await world({
    script: ({ messages }) => {
      const isFirst = JSON.stringify(messages).includes("the first task");
      if (messages.some(({ role }) => role === "assistant")) return { text: isFirst ? "First done." : "Second done." };
      return { calls: isFirst ? [ask("Which sum?"), remove] : [ask("Which product?")] };
    },
  });
  await runs.startRun({ origin, worker: "fixer", text: "the first task" });
  const { id } = await approvalRequested();
  await waitUntilShown(({ kind, text }) => kind === "question" && text?.includes("Which sum?") === true);
  await runs.startRun({ origin, worker: "fixer", text: "the second task" });
  await waitUntilShown(({ kind, text }) => kind === "question" && text?.includes("Which product?") === true);
  await runs.decideApprovals(origin, { by: "ada", target: id, approve: true });
  await runtime.idle();

  await runs.deliverMessage(origin, { by: "ada", text: "The one in sum.js." });

  await waitUntilShown(({ kind }) => kind === "outcome");
  const answered = model.requests.filter(({ messages }) => JSON.stringify(messages).includes("The one in sum.js."));
  expect(answered.map(({ messages }) => JSON.stringify(messages).includes("the first task"))).toEqual([true]);
});

test.each([
  ["> Which product, and which sum?\n\nThe price.", "the second task"],
  ["> ### 💬 **fixer** asks\n> \n> > Which *product*, and which sum?\n\nThe price.", "the second task"],
  ["> Which sum?\n\nThe price.", "the first task"],
  ["> Which one?\n\nThe price.", "the first task"],
  ["The price.\n\n> Which product, and which sum?", "the first task"],
])("an answer goes to the question that it quotes at its beginning, or else to the oldest: %j", async (text, task) => {
  const { runs, waitUntilShown, model } = await world({
    script: ({ messages }) => {
      if (messages.some(({ role }) => role === "assistant")) return { text: "Done." };
      const question = JSON.stringify(messages).includes("the first task")
        ? "Which sum?"
        : "Which product, and which sum?";
      return { calls: [{ name: "ask_user", args: { question } }] };
    },
  });
  await runs.startRun({ origin, worker: "fixer", text: "the first task" });
  await waitUntilShown(({ kind, text }) => kind === "question" && text?.includes("Which sum?") === true);
  await runs.startRun({ origin, worker: "fixer", text: "the second task" });
  await waitUntilShown(({ kind, text }) => kind === "question" && text?.includes("Which product") === true);

  await runs.deliverMessage(origin, { by: "ada", text });

  await waitUntilShown(({ kind }) => kind === "outcome");
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain(task);
});

test("a delivery that comes twice starts one run", async () => {
  const { runs, ended, shown, runtime } = await world({ script: turns({ text: "Hello." }) });

  const first = await runs.startRun({ origin, worker: "fixer", text: "hi", deliveryId: "d1" });
  const second = await runs.startRun({ origin, worker: "fixer", text: "hi", deliveryId: "d1" });

  expect(second.id).toBe(first.id);
  await ended();
  await runtime.idle();
  expect(shown.filter(({ kind }) => kind === "outcome")).toHaveLength(1);
});

test("two pending approvals are decided in any order, each on its own", async () => {
  const both = {
    calls: [
      { name: "write_file", args: { path: "README.md", content: "# One\n" } },
      { name: "delete_file", args: { path: "sum.js" } },
    ],
  };
  const files = {
    ".github/workers/careful.worker":
      "---\nname: careful\ntoolsets: { filesystem: {} }\nsandbox: { approval: { write: ask } }\n---\nBe careful.",
  };
  const { runs, approvalRequested, ended, model } = await world({
    script: turns({ calls: [{ name: "read_file", args: { path: "README.md" } }] }, both, { text: "Done." }),
    github: { files },
  });
  await runs.startRun({ origin, worker: "careful", text: "tidy up" });

  const first = await approvalRequested();
  const second = await approvalRequested([first.id]);
  await expect(runs.decideApprovals(origin, { by: "ada", target: undefined, approve: true })).rejects.toThrow(
    "Several requests are waiting.",
  );
  await runs.decideApprovals(origin, { by: "ada", target: second.id, approve: true });
  await runs.decideApprovals(origin, { by: "ada", target: first.id, approve: false, note: "keep the title" });

  await ended();
  expect(first.tool).toBe("write_file");
  const results = JSON.stringify(model.requests.at(-1)?.messages.slice(-2));
  expect(results).toContain("keep the title");
  expect(results.indexOf("keep the title")).toBeLessThan(results.indexOf("sum.js"));
});

test("changed arguments replace the original ones, and the model is told what ran", async () => {
  const { runs, approvalRequested, ended, github, model } = await world({
    script: turns(write, openPull, { text: "Opened." }),
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });

  const changedArgs = { title: "Add two", body: "One more number." };
  const decision = { by: "ada", target: (await approvalRequested()).id, approve: true, note: "shorter is better" };
  await runs.decideApprovals(origin, { ...decision, changedArgs });

  await ended();
  expect(await github.pulls()).toMatchObject([{ title: "Add two" }]);
  const shown = JSON.stringify(model.requests.at(-1)?.messages);
  expect(shown).toContain("A person changed the arguments");
  expect(shown).toContain("shorter is better");
});

test("changed arguments that the tool does not accept are refused, and nothing runs", async () => {
  const { runs, approvalRequested, ended, github, model } = await world({
    script: turns(write, openPull, { text: "Hm." }),
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });

  await runs.decideApprovals(origin, {
    by: "ada",
    target: (await approvalRequested()).id,
    approve: true,
    changedArgs: { titel: 1 },
  });

  await ended();
  expect(await github.pulls()).toEqual([]);
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("title");
});

test("an approval for the session covers identical calls, and no others", async () => {
  const remove = { calls: [{ name: "delete_file", args: { path: "gone.txt" } }] };
  const again = { calls: [{ name: "write_file", args: { path: "gone.txt", content: "x" } }] };
  const other = { calls: [{ name: "delete_file", args: { path: "sum.js" } }] };
  const { runs, approvalRequested, ended } = await world({
    script: turns(again, remove, again, remove, other, { text: "Done." }),
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });

  const first = await approvalRequested();
  await runs.decideApprovals(origin, { by: "ada", target: first.id, approve: true, remember: "session" });
  const second = await approvalRequested([first.id]);

  expect(second.args).toMatchObject({ path: "sum.js" });
  await runs.decideApprovals(origin, { by: "ada", target: second.id, approve: false });
  await ended();
});

test("an approval that nobody decides expires, and the worker is told", async () => {
  const { runs, ended, github, model, waitUntilShown } = await world({
    script: turns(write, openPull, { text: "Nobody came." }),
    approvalMs: 150,
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });

  await ended();
  expect(await github.pulls()).toEqual([]);
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("expired");
  await waitUntilShown(({ approval }) => approval?.status === "expired");
});

test("an approval does not expire because a process starts with a clock that is ahead", async () => {
  const { runs, store, runtime, approvalRequested } = await world({
    script: turns(write, openPull),
    approvalMs: 60_000,
  });
  await runs.startRun({ origin, worker: "fixer", text: "do it" });
  const { id } = await approvalRequested();
  await runtime.idle();
  onTestFinished(() => void vi.restoreAllMocks());
  const now = Date.now();
  vi.spyOn(Date, "now").mockReturnValue(now + 30 * 24 * 3_600_000);

  const { runtime: restarted } = await world({ store, script: turns() });
  await restarted.idle();

  expect(await store.findApproval(id)).toMatchObject({ status: "pending" });
});

test("an approval cannot be decided in another thread", async () => {
  const { runs, approvalRequested } = await world({ script: turns(write, openPull) });
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  const { id } = await approvalRequested();

  await expect(
    runs.decideApprovals({ ...origin, thread: 8 }, { by: "ada", target: id, approve: true }),
  ).rejects.toThrow("not found in this thread");
});

test("a run ends at its limit and says which", async () => {
  const files = {
    ".github/workers/short.worker":
      "---\nname: short\ntoolsets: { filesystem: {} }\nlimits: { steps: 2 }\n---\nBe short.",
  };
  const list = (path: string) => ({ calls: [{ name: "list_files", args: { path } }] });
  const { runs, ended, model } = await world({ script: turns(list("/"), list("."), list("/")), github: { files } });
  await runs.startRun({ origin, worker: "short", text: "please" });

  expect((await ended()).outcome).toMatchObject({ kind: "limited", limit: "steps: 2" });
  expect(model.requests).toHaveLength(2);
});

test("a web search of the model's provider is shown in the log and counted in the cost", async () => {
  const anthropic = await startAnthropic({ query: "node 26", url: "https://nodejs.org/en/blog", text: "It is out." });
  const searcher = `---
name: searcher
model: anthropic:claude-haiku-4-5
server_side_tools: [{ name: web_search, config: { max_uses: 1 } }]
---
Look it up.`;
  const { runs, ended } = await world({
    script: turns(),
    anthropicUrl: anthropic.url,
    github: { files: { ".github/workers/searcher.worker": searcher } },
  });
  await runs.startRun({ origin, worker: "searcher", text: "Is Node 26 out?" });

  const { outcome, log, cost } = await ended();

  expect(anthropic.requests[0]?.tools).toContainEqual(expect.objectContaining({ name: "web_search", max_uses: 1 }));
  expect(outcome).toMatchObject({ text: expect.stringMatching(/^It is out\..*https:\/\/nodejs\.org\/en\/blog/s) });
  expect(log).toContain("The model's provider searched the web: node 26");
  expect(cost).toBeGreaterThan(0.01);
});

test("a model call is retried after the time the provider asks for", async () => {
  const calledAt: number[] = [];
  const { runs, waitUntilShown, ended } = await world({
    script: () => {
      calledAt.push(performance.now());
      return calledAt.length === 1 ? { status: 429, retryAfter: 2 } : { text: "Here I am." };
    },
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });

  const { view } = await waitUntilShown(({ view }) => view.state === "retrying");
  expect(view.activity).toMatch(/^Waiting to try the model again: .*\. The next try is at \d\d:\d\d:\d\d UTC\.$/);
  expect((await ended()).outcome).toEqual({ kind: "answered", text: "Here I am." });
  const [first = 0, second = 0] = calledAt;
  expect(calledAt).toHaveLength(2);
  expect(second - first).toBeGreaterThanOrEqual(2_000);
});

test("an approval does not count when the call would now change something else", async () => {
  const both = {
    calls: [
      { name: "open_pull_request", args: { title: "Add two", body: "" } },
      { name: "write_file", args: { path: "sneaky.js", content: "steal();\n" } },
    ],
  };
  const { runs, approvalRequested, ended, github, model, waitUntilShown } = await world({
    script: turns(write, both, { text: "Hm." }),
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  const { id, preview } = await approvalRequested();
  expect(preview).not.toContain("sneaky");
  await waitUntilShown(
    ({ view }) => view.state === "awaitingApproval" && view.log.some((line) => line.includes("sneaky.js")),
  );

  await runs.decideApprovals(origin, { by: "ada", target: id, approve: true });

  await ended();
  expect(await github.pulls()).toEqual([]);
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("has changed since it was approved");
});

test("a command that is delivered again does nothing", async () => {
  const { runs, approvalRequested, waitUntilShown } = await world({ script: turns(write, openPull) });
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  await approvalRequested();

  await runs.requestStop(origin, { by: "ada", deliveryId: "d2" });
  await waitUntilShown(({ view }) => view.state === "interrupted");

  expect(await runs.requestStop(origin, { by: "ada", deliveryId: "d2" })).toEqual([]);
});

describe("stopping", () => {
  test("a stop interrupts the model's call, and a resume passes the person's message to it", async () => {
    const asked = Promise.withResolvers<void>();
    const replies: ModelReply[] = [{ hang: true }, { text: "Done." }];
    const { runs, waitUntilShown, ended, model } = await world({
      script: () => {
        asked.resolve();
        return replies.shift() ?? { text: "Done." };
      },
    });
    await runs.startRun({ origin, worker: "fixer", text: "please" });
    await asked.promise;

    await runs.requestStop(origin, { by: "ada" });
    await waitUntilShown(({ view }) => view.state === "interrupted");
    await runs.requestResume(origin, { by: "ada", text: "be quick" });

    expect((await ended()).outcome?.kind).toBe("answered");
    const last = JSON.stringify(model.requests.at(-1)?.messages);
    expect(last).toContain("be quick");
  });

  test("a stop withdraws requests: a late approval is refused and nothing runs", async () => {
    const { runs, approvalRequested, waitUntilShown, github } = await world({ script: turns(write, openPull) });
    await runs.startRun({ origin, worker: "fixer", text: "please" });
    const { id } = await approvalRequested();

    await runs.requestStop(origin, { by: "ada" });
    await waitUntilShown(({ view }) => view.state === "interrupted");

    await expect(runs.decideApprovals(origin, { by: "ada", target: id, approve: true })).rejects.toThrow(
      "its run was paused",
    );
    expect(await github.pulls()).toEqual([]);
  });

  test("a stop and a resume take effect in their order, even if the run has applied neither", async () => {
    const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
    const { runs, runtime, store, waitUntilShown, ended, model } = await world({
      script: turns(ask, { text: "Done." }),
    });
    await runs.startRun({ origin, worker: "fixer", text: "please" });
    await waitUntilShown(({ kind }) => kind === "question");
    await runtime.idle();
    const isFree = Promise.withResolvers<void>();
    const { advance } = store;
    const held = vi.spyOn(store, "advance").mockImplementation(async (step) => {
      await isFree.promise;
      return advance(step);
    });

    await runs.requestStop(origin, { by: "ada" });
    await runs.requestStop(origin, { by: "ada" });
    await runs.requestResume(origin, { by: "ada", text: "be quick" });
    await runs.requestStop(origin, { by: "ada" });
    await runs.requestResume(origin, { by: "ada" });
    isFree.resolve();

    expect((await ended()).outcome?.kind).toBe("answered");
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("be quick");
    held.mockRestore();
  });

  test("a stop is refused when no worker is running", async () => {
    const { runs } = await world({ script: turns() });

    await expect(runs.requestStop(origin, { by: "ada" })).rejects.toThrow("No worker is running in this thread.");
  });
});

describe("a worker called by another one", () => {
  const boss = { calls: [{ name: "explorer", args: { task: "Find the sum." } }] };
  const script: RuntimeWorldOptions["script"] = ({ messages }) => {
    const isChild = JSON.stringify(messages[0]).includes("You find things in the repository");
    const turn = messages.filter(({ role }) => role === "assistant").length;
    if (isChild)
      return turn === 0 ? { calls: [{ name: "read_file", args: { path: "sum.js" } }] } : { text: "It is in sum.js:1." };
    return turn === 0 ? boss : { text: "Found." };
  };

  test("a worker called by another one returns its answer as the result of the call, from a run with its own log", async () => {
    const { runs, ended, model, store } = await world({ script });
    const { id } = await runs.startRun({ origin, worker: "fixer", text: "please" });

    const view = await ended();
    expect(view.outcome).toEqual({ kind: "answered", text: "Found." });
    expect(view.children).toMatchObject([
      { spec: { workerPath: "fixer -> explorer", depth: 1 }, outcome: { kind: "answered" } },
    ]);
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("It is in sum.js:1.");
    expect(await store.childrenOf(id)).toHaveLength(1);
  });

  test("a worker called by another one hands its changes to its parent, and is approved in the root's thread", async () => {
    const files = {
      ".github/workers/boss.worker":
        "---\nname: boss\ntoolsets: { filesystem: {}, workers: { allowed: [writer] } }\n---\nYou are the boss.",
      ".github/workers/writer.worker": "---\nname: writer\ntoolsets: { filesystem: {} }\n---\nYou are the writer.",
    };
    const writers: RuntimeWorldOptions["script"] = ({ messages }) => {
      const isChild = JSON.stringify(messages[0]).includes("You are the writer.");
      const turn = messages.filter(({ role }) => role === "assistant").length;
      if (isChild)
        return turn === 0 ? { calls: [{ name: "delete_file", args: { path: "sum.js" } }] } : { text: "It is gone." };
      return (
        [
          { calls: [{ name: "writer", args: { task: "Delete sum.js" } }] },
          { calls: [{ name: "file_exists", args: { path: "sum.js" } }] },
        ][turn] ?? { text: "Done." }
      );
    };
    const { runs, approvalRequested, ended, model } = await world({ script: writers, github: { files } });
    const { id } = await runs.startRun({ origin, worker: "boss", text: "please" });

    const approval = await approvalRequested();
    expect(approval).toMatchObject({ workerPath: "boss -> writer", rootId: id });
    await runs.decideApprovals(origin, { by: "ada", target: approval.id, approve: true });

    const view = await ended();
    expect(view.outcome).toEqual({ kind: "answered", text: "Done." });
    expect(JSON.stringify(model.requests.at(-1)?.messages.at(-1))).toMatch(/does not exist/);
  });

  test("a worker called by another one gets the attached files that its attachment policy allows", async () => {
    const files = {
      ".github/workers/boss.worker":
        "---\nname: boss\ntoolsets: { workers: { allowed: [critic] } }\n---\nYou are the boss.",
      ".github/workers/critic.worker":
        "---\nname: critic\nattachment_policy: { allowed_suffixes: [md] }\n---\nYou are the critic.",
    };
    const script: RuntimeWorldOptions["script"] = ({ messages }) => {
      if (JSON.stringify(messages[0]).includes("You are the critic.")) return { text: "Good." };
      const turn = messages.filter(({ role }) => role === "assistant").length;
      const attach = (path: string) => ({
        calls: [{ name: "critic", args: { task: "Judge it.", attachments: [path] } }],
      });
      return [attach("sum.js"), attach("missing.md"), attach("README.md")][turn] ?? { text: "Done." };
    };
    const { runs, ended, model } = await world({ script, github: { files } });
    await runs.startRun({ origin, worker: "boss", text: "please" });

    await ended();
    const critics = model.requests.filter(({ messages }) => JSON.stringify(messages[0]).includes("the critic"));
    expect(critics).toHaveLength(1);
    expect(JSON.stringify(critics[0]?.messages)).toContain("The attached file README.md:\\n# Sums");
    const boss = JSON.stringify(model.requests.at(-1)?.messages);
    expect(boss).toContain("only files ending in .md are allowed");
    expect(boss).toContain("missing.md does not exist");
  });

  test("a worker called by another one cannot write where its parent may only read", async () => {
    const files = {
      ".github/workers/reader.worker":
        "---\nname: reader\ntoolsets: { workers: { allowed: [writer] } }\nsandbox: { readonly: true }\n---\nYou are the reader.",
      ".github/workers/writer.worker":
        "---\nname: writer\ntoolsets: { filesystem: {} }\nsandbox: { approval: { write: preApproved } }\n---\nYou are the writer.",
    };
    const script: RuntimeWorldOptions["script"] = ({ messages }) => {
      const isChild = JSON.stringify(messages[0]).includes("You are the writer.");
      const turn = messages.filter(({ role }) => role === "assistant").length;
      if (turn > 0) return { text: "Done." };
      return isChild ? write : { calls: [{ name: "writer", args: { task: "Write new.js" } }] };
    };
    const { runs, ended, model, store } = await world({ script, github: { files } });
    const { id } = await runs.startRun({ origin, worker: "reader", text: "please" });

    await ended();
    const [child] = await store.childrenOf(id);
    expect(await store.changesOf(child?.id ?? "")).toEqual([]);
    expect(model.requests.map(({ messages }) => JSON.stringify(messages.at(-1))).join()).toMatch(/read-only/i);
  });

  test("a worker called by another one is cancelled with its parent", async () => {
    const hanging: RuntimeWorldOptions["script"] = (request) => {
      const isChild = JSON.stringify(request.messages[0]).includes("You find things in the repository");
      return isChild ? { hang: true } : boss;
    };
    const { runs, waitUntilShown, runtime } = await world({ script: hanging });
    const { id } = await runs.startRun({ origin, worker: "fixer", text: "please" });
    await waitUntilShown(({ view }) => view.children[0]?.state === "callingModel");

    await runs.requestCancel(origin, { by: "ada" });
    await runtime.idle();

    const view = await runs.findRunView(id);
    expect(view?.outcome).toEqual({ kind: "cancelled", by: "ada" });
    expect(view?.children[0]?.outcome?.kind).toBe("cancelled");
  });

  test("the cost of a called worker is added to its cancelled parent, also if the process ended before that", async () => {
    const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
    const { runs, store, runtime, ended, waitUntilShown } = await world({ script: turns(ask) });
    const { id } = await runs.startRun({ origin, worker: "fixer", text: "please" });
    await waitUntilShown(({ kind }) => kind === "question");
    await runs.requestCancel(origin, { by: "ada" });
    const { cost = 0 } = await ended();
    await runtime.idle();
    const outcome = { kind: "cancelled" as const, by: "fixer" };
    const usage = { inputTokens: 10, outputTokens: 1 };
    // Stored by a process that ended right afterwards.
    await store.ingest({
      events: [{ runId: id, event: { type: "child.finished", callId: "c1", childId: "c", outcome, usage, cost: 0.5 } }],
    });

    const restarted = await world({ store, script: turns() });
    await restarted.runtime.idle();

    expect((await readView(store, id))?.cost).toBe(cost + 0.5);
  });

  test("the steps, tokens and cost of a run are known after its log was removed", async () => {
    const { runs, store, runtime, ended } = await world({ script: turns({ text: "Nothing to do." }) });
    const { id } = await runs.startRun({ origin, worker: "fixer", text: "please" });
    await ended();
    await runtime.idle();
    const before = await readView(store, id);
    await store.removeExpired({ runsEndedBefore: Number.MAX_SAFE_INTEGER, deliveriesBefore: 0 });

    const after = await readView(store, id);

    const { inputTokens, outputTokens } = before?.usage ?? { inputTokens: 0, outputTokens: 0 };
    const { steps, tokens, cost } = before ?? {};
    expect(tokens).toBe(inputTokens + outputTokens);
    expect(tokens).toBeGreaterThan(0);
    expect(after?.usage).toMatchObject({ inputTokens: 0, outputTokens: 0 });
    expect({ steps: after?.steps, tokens: after?.tokens, cost: after?.cost }).toEqual({ steps, tokens, cost });
  });
});

describe("the repository's settings", () => {
  const settings = (text: string) => ({
    files: { ".github/golem-forge.yml": text },
    permissions: { bob: "write" as const },
  });

  test("the repository's settings restrict which workers start", async () => {
    const { runs } = await world({ script: turns(), github: settings("workers: [triager]") });

    await expect(runs.startRun({ origin, worker: "fixer", text: "x" })).rejects.toThrow("fixer may not be run here");
  });

  test("the repository's settings name the worker that starts by default", async () => {
    const { runs } = await world({ script: turns(), github: settings("default_worker: triager") });

    const { worker } = await runs.startRun({ origin, text: "please" });

    expect(worker.name).toBe("triager");
  });

  test("nothing starts while the repository's settings are invalid", async () => {
    const { runs } = await world({ script: turns(), github: settings("limit: {}") });

    await expect(runs.startRun({ origin, worker: "fixer", text: "x" })).rejects.toThrow("Did you mean limits?");
  });

  test("the repository's settings can require a second person to approve, also for all requests at once", async () => {
    const { runs, approvalRequested, ended, github } = await world({
      script: turns(write, openPull, { text: "Opened." }),
      github: settings("second_person: true"),
    });
    await runs.startRun({ origin, worker: "fixer", text: "please" });
    const { id } = await approvalRequested();

    for (const target of [id, "all", undefined]) {
      await expect(runs.decideApprovals(origin, { by: "ada", target, approve: true })).rejects.toThrow(
        "a second person",
      );
    }
    await runs.decideApprovals(origin, { by: "bob", target: id, approve: true });

    await ended();
    expect(await github.pulls()).toHaveLength(1);
  });

  test("the repository's settings add to the instructions and the limits of every worker", async () => {
    const { runs, ended, model } = await world({
      script: turns(write, write, write),
      github: settings("instructions: Tests run with make.\nlimits: { steps: 1 }"),
    });
    await runs.startRun({ origin, worker: "fixer", text: "please" });

    expect((await ended()).outcome).toMatchObject({ kind: "limited", limit: "steps: 1" });
    expect(JSON.stringify(model.requests[0]?.messages[0])).toContain("Tests run with make.");
  });
});

describe("runs that cannot start", () => {
  test.each([
    ["an unknown worker, with the nearest one", { worker: "fixr" }, {}, 'Worker "fixr" not found. Did you mean fixer?'],
    [
      "a broken worker file",
      { worker: "odd" },
      { files: { ".github/workers/odd.worker": "---\nname: odd\ntolsets: {}\n---\nHi" } },
      "Did you mean toolsets?",
    ],
    [
      "an offered tool that no toolset of the worker has",
      { worker: "odd" },
      {
        files: {
          ".github/workers/odd.worker": "---\nname: odd\ntoolsets: { git: {} }\noffered_tools: [git_blme]\n---\nHi",
        },
      },
      "odd cannot be used: offered_tools: None of the worker's toolsets has a tool git_blme. Did you mean git_blame?",
    ],
  ])("a run that cannot start is refused at once: %s", async (_, request, github, sentence) => {
    const { runs } = await world({ script: turns(), github });

    await expect(runs.startRun({ origin, text: "x", ...request })).rejects.toThrow(sentence);
  });

  test("a run with an empty task on an issue whose title has no visible characters is refused", async () => {
    const { runs, github } = await world({ script: turns(), github: { issue: { title: "\u200b", body: "" } } });

    await expect(runs.startRun({ origin, worker: "fixer", text: " " })).rejects.toThrow("needs a task");

    const files = { "sum.js": "export const sum = 2;\n" };
    await github.hub.push({ branch: "work", message: "Two", author: "ada", at: new Date(), files });
    const { number } = await github.hub.as("ada").openPullRequest({ title: "\u200b", head: "work", base: "main" });
    const pull = { ...origin, thread: number, isPullRequest: true };
    expect(await runs.startRun({ origin: pull, worker: "reviewer", text: "" })).toMatchObject({
      workerPath: "reviewer",
    });
  });

  test("a run beyond the hourly limit of a person is refused", async () => {
    const { runs } = await world({ script: turns(), runsPerHour: { person: 1, repository: 10 } });
    await runs.startRun({ origin, worker: "fixer", text: "one" });

    await expect(runs.startRun({ origin, worker: "fixer", text: "two" })).rejects.toThrow(
      "@ada has started 1 run in the last hour, which is the limit",
    );
    await runs.startRun({ origin: { ...origin, requestedBy: "mia" }, worker: "fixer", text: "three" });
  });

  test("a run in a repository without its default branch is refused", async () => {
    const { runs, ended, github } = await world({ script: turns() });
    await github.git("symbolic-ref", "HEAD", "refs/heads/trunk");
    await runs.startRun({ origin, worker: "fixer", text: "x" });

    expect((await ended()).outcome).toMatchObject({
      kind: "failed",
      reason: expect.stringContaining("default branch"),
    });
  });

  test("a worker with a server-side tool that the model's provider does not have is refused", async () => {
    const searcher = "---\nname: searcher\nserver_side_tools: [{ name: web_search }]\n---\nLook it up.";
    const { runs } = await world({
      script: turns(),
      github: { files: { ".github/workers/searcher.worker": searcher } },
    });

    await expect(runs.startRun({ origin, worker: "searcher", text: "please" })).rejects.toThrow(
      "searcher cannot use the server-side tool web_search here: The model server has no web search.",
    );
  });

  test("a worker file that names a toolset that does not exist is refused", async () => {
    const files = { ".github/workers/odd.worker": "---\nname: odd\ntoolsets: { filesytem: {} }\n---\nHi" };
    const { runs } = await world({ script: turns(), github: { files } });

    await expect(runs.startRun({ origin, worker: "odd", text: "x" })).rejects.toThrow("Did you mean filesystem");
  });
});

describe("a repository", () => {
  /** The location that GitHub reports now. */
  function locate({ hub }: GitHubWorld, at: number) {
    const { id: repositoryId, owner, name: repo, installation } = hub.repository();
    return {
      repositoryId,
      installationId: installation?.id ?? 0,
      ownerId: owner.id,
      owner: owner.login,
      repo,
      at,
    };
  }

  test("a repository that is transferred to another owner has its runs stopped once and their requests withdrawn", async () => {
    const { runs, approvalRequested, waitUntilShown, ended, github } = await world({
      script: turns(write, openPull, { text: "Done." }),
    });
    const there = locate(github, 1_000);
    const numbered = { ...origin, repositoryId: there.repositoryId };
    await runs.reportLocation(there);
    await runs.startRun({ origin: numbered, worker: "fixer", text: "please" });
    const { id } = await approvalRequested();
    github.hub.accountChanges.renameOwner("octo", "octopus");
    await runs.reportLocation(locate(github, 2_000));
    expect(await runs.pendingApprovals(numbered)).toHaveLength(1);

    github.hub.accountChanges.transfer(github.hub.repository(), "ada");
    const moved = locate(github, 3_000);
    await runs.reportLocation(moved);

    const { view } = await waitUntilShown(({ view }) => view.state === "interrupted");
    expect(view.activity).toContain("transferred from octopus/sums to ada/sums");
    expect(view.spec.origin).toMatchObject({ owner: "ada", installationId: moved.installationId });
    await expect(runs.decideApprovals(numbered, { by: "ada", target: id, approve: true })).rejects.toThrow(
      "its run was paused",
    );
    expect(github.hub.repository().threads.size).toBe(7);

    await runs.requestResume(numbered, { by: "ada" });
    await runs.reportLocation(moved);
    expect((await ended()).outcome).toEqual({ kind: "answered", text: "Done." });
  });

  test("a repository that the app can no longer reach has its runs stopped with the reason, once for each delivery", async () => {
    const { runs, approvalRequested, waitUntilShown, ended, github } = await world({
      script: turns(write, openPull, { text: "Done." }),
    });
    const { accountChanges } = github.hub;
    const repository = github.hub.repository();
    const there = locate(github, 1_000);
    const numbered = { ...origin, repositoryId: there.repositoryId };
    await runs.reportLocation(there);
    await runs.startRun({ origin: numbered, worker: "fixer", text: "please" });
    await approvalRequested();

    accountChanges.uninstall();
    const gone = { reason: "This app was uninstalled from octo.", deliveryId: "d9" };
    await runs.stopUnreachable({ installationId: 2 }, gone);
    await runs.stopUnreachable({ installationId: 1 }, { ...gone, deliveryId: "d10" });

    const { view } = await waitUntilShown(({ view }) => view.state === "interrupted");
    expect(view.activity).toContain(
      "This app was uninstalled from octo. When this is resolved, continue with /resume.",
    );
    accountChanges.install();
    accountChanges.addRepository(repository);
    const { installationId } = github.hub;
    await runs.refreshReachable({ installationId, repositoryIds: [repository.id, 12] }, [locate(github, 4_000)]);
    await runs.requestResume(numbered, { by: "ada" });
    await runs.stopUnreachable({ installationId }, { ...gone, deliveryId: "d10" });
    expect((await ended()).spec.origin.installationId).toBe(installationId);
  });
});

test("a comment decides only requests that were posted before it was written", async () => {
  const { runs, approvalRequested, store, runtime } = await world({
    script: turns(write, openPull, { text: "Done." }),
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  const { id } = await approvalRequested();
  await runtime.idle();
  const { commentId = 0 } = (await store.findPost(`approval/${id}`)) ?? {};
  const approve = (target: string | undefined, comment: number) =>
    runs.decideApprovals(origin, { by: "ada", target, approve: true, commentId: comment });

  for (const target of [undefined, "all", id]) {
    await expect(approve(target, commentId - 1)).rejects.toThrow("was posted after your comment was written");
  }
  expect(await approve(undefined, commentId + 1)).toMatchObject([{ id, status: "approved" }]);
});

test("an approval for the session ends with the write access of the person who gave it", async () => {
  const reply = (text: string) => ({ calls: [{ name: "reply", args: { text } }] });
  const files = {
    ".github/workers/talker.worker":
      "---\nname: talker\ntoolsets: { github: { approval: { tools: { reply: ask } } } }\n---\nTalk.",
  };
  const { runs, approvalRequested, ended, model, github } = await world({
    script: turns(reply("hi"), reply("hi"), { text: "Done." }),
    github: { files },
  });
  await runs.startRun({ origin, worker: "talker", text: "please" });
  const { id } = await approvalRequested();
  await runs.decideApprovals(origin, { by: "ada", target: id, approve: true, remember: "session" });
  github.setPermission("ada", "read");

  await ended();
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("no longer confirms write access");
});

describe("the policy of the deployment", () => {
  const files = {
    ".github/workers/eager.worker":
      "---\nname: eager\ntoolsets: { filesystem: {}, pull_request: { approval: { default: preApproved } } }\nlimits: { cost: 999999 }\n---\nBe quick.",
  };

  test("the deployment's policy bounds the limits of a repository's worker, and requires the approval of its pull request", async () => {
    const { runs, approvalRequested } = await world({
      script: turns(write, openPull, { text: "Done." }),
      github: { files },
    });

    const spec = await runs.startRun({ origin, worker: "eager", text: "please" });

    expect(spec.worker.limits.cost).toBe(20);
    expect(await approvalRequested()).toMatchObject({ tool: "open_pull_request" });
  });

  test("no run starts when the day's budget is used up, and those that would go on are paused", async () => {
    const anthropic = await startAnthropic({ query: "node 26", url: "https://nodejs.org/en/blog", text: "It is out." });
    const chat = "---\nname: chat\nmodel: anthropic:claude-haiku-4-5\nmode: chat\n---\nLook it up.";
    const { runs, runtime, waitUntilShown } = await world({
      script: turns(),
      anthropicUrl: anthropic.url,
      github: { files: { ".github/workers/chat.worker": chat } },
      policy: { cost_per_day: { total: 0.015 } },
    });
    // Each alone stays below the budget.
    const start = () => runs.startRun({ origin, worker: "chat", text: "Is Node 26 out?" });
    await Promise.all([start(), start()]);
    await runtime.idle();

    await runs.deliverMessage(origin, { by: "ada", text: "And Node 27?" });
    const { view } = await waitUntilShown(({ view }) => view.state === "interrupted");

    const spent = "This deployment has spent its budget for the last 24 hours ($0.015)";
    expect(view.activity).toContain(spent);
    expect(anthropic.requests).toHaveLength(2);
    await expect(runs.startRun({ origin, worker: "fixer", text: "please" })).rejects.toThrow(spent);
  });
});
