import { afterAll, beforeAll, expect, test } from "vitest";
import { alwaysReplies, byTurn, call, inSequence, type Stories, startStories } from "../support/forge-stories.ts";
import { approvalIdIn, forgeRepository } from "../support/forge-world.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from "../support/otlp-receiver.ts";

let world: Stories;
let collector: OtlpReceiver;

const metricsToken = "a-token-of-the-scraper";

/** One call of its model costs more than its limit. */
const thrifty = `---
name: thrifty
model: openai:gpt-6.1-sol
limits: { cost: 0.001 }
toolsets: { filesystem: {} }
---
Do as you are told.
`;

beforeAll(async () => {
  const commits = forgeRepository.commits.map((commit) => ({
    ...commit,
    files: {
      ...commit.files,
      ".github/workers/thrifty.worker": thrifty,
      ".github/workers/talker.worker": "---\nname: talker\nmode: chat\n---\nTalk.",
    },
  }));
  collector = await startOtlpReceiver();
  world = await startStories({
    repositories: [{ ...forgeRepository, commits }],
    environment: {
      GOLEM_FORGE_METRICS_TOKEN: metricsToken,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: "100",
      OTEL_METRIC_EXPORT_INTERVAL: "500",
      LOG_LEVEL: "info",
    },
  });
  await world.startProcess();
});
afterAll(async () => {
  await world.close();
  await collector.close();
});

const edit = call("write_file", { path: "NOTES.md", content: "Count every item once.\n" });
const openPull = call("open_pull_request", { title: "Count every item once", body: "One too many." });

test("/run alone lists the workers, and a name that is unknown gets a suggestion", async () => {
  const story = world.open({ title: "Which workers?" });

  story.comment("/run");
  expect((await story.botComment(/Workers:/)).body).toMatch(/`\/run fixer` — .+/);
  story.comment("/run fixr");
  await story.botComment(/Did you mean fixer\? You can run: .*fixer/);
});

test("/diff, /log, /cost and /status show a run, and /exit ends it with its work as the result", async () => {
  const ask = call("ask_user", { question: "Is that enough?" });
  const story = world.open({ title: "Show the run", script: byTurn(edit, ask, { text: "Done." }) });
  story.comment("/run fixer");
  await story.botComment(/Is that enough\?/);

  story.comment("/diff");
  const { body: diff } = await story.botComment(/Changes so far: 1 file/);
  expect(diff).toContain("+Count every item once.");
  story.comment("/log");
  expect((await story.botComment(/waiting for you\n\n```text\n/)).body).toMatch(
    /write_file: [\s\S]*\[Watch this run\]\(http/,
  );
  story.comment("/cost");
  await story.botComment(/\| cost \| usual cost \|[\s\S]*not priced; the cost limit does not apply/);

  story.comment("/exit");
  await story.botComment(/✅ \*\*fixer\*\*\n[\s\S]*@\S*maintainer ended this run\./);
  story.comment("/status");
  await story.botComment(/\*\*fixer\*\* is done \(\[run \w+\]\(http/);
});

test("commands for a run are left to other bots where no worker was started", async () => {
  const story = world.open({ title: "Another bot's thread" });

  for (const command of ["/ready", "/retry", "/clear", "/model", "/exit", "/diff", "/log", "/cost"]) {
    story.comment(command);
  }
  story.comment("/status");
  await story.botComment(/No worker is running in this thread/);

  expect(await story.comments()).toHaveLength(1);
});

test("/retry starts a worker that has failed again, with the same task", async () => {
  const failing = { status: 400, message: "The prompt is not accepted" };
  const story = world.open({ title: "Try again", script: inSequence(failing, { text: "Now it works." }) });
  story.comment("/run fixer count the items");
  await story.botComment(/❌ \*\*fixer\*\* failed/);

  story.comment("/retry");

  await story.botComment(/Now it works\./);
  expect(JSON.stringify(story.requests.at(-1)?.messages)).toContain("count the items");
});

test("/model switches the next calls to another model, and refuses one without a provider", async () => {
  const ask = call("ask_user", { question: "Go on?" });
  const story = world.open({ title: "Another model", script: byTurn(ask, { text: "Done with the other one." }) });
  story.comment("/run fixer");
  await story.botComment(/Go on\?/);

  story.comment("/model");
  await story.botComment(/The worker uses `openai:scripted`/);
  story.comment("/model nobody:knows-it");
  await story.botComment(/There is no provider nobody/);
  story.comment("/model openai:other");
  await story.botComment(/The next model calls use `openai:other`/);
  story.comment("yes");

  await story.botComment(/Done with the other one\./);
  expect(story.requests.map(({ model }) => model)).toEqual(["scripted", "other"]);
});

test("/clear drops the conversation of a paused run and keeps its files", async () => {
  const ask = call("ask_user", { question: "What now?" });
  const story = world.open({
    title: "Forget it",
    script: inSequence(edit, ask, { text: "Cleared." }),
  });
  story.comment("/run fixer the secret word is xylophone");
  await story.botComment(/What now\?/);
  story.comment("/clear");
  await story.botComment(/is in the middle of its work/);
  story.comment("/stop");
  await story.botComment(/\*\*fixer\*\* is paused/);

  story.comment("/clear");
  await story.botComment(/The conversation was cleared/);
  story.comment("/resume tell me what you know");

  await story.botComment(/Cleared\./);
  const last = JSON.stringify(story.requests.at(-1)?.messages);
  expect(last).not.toContain("xylophone");
  expect(last).toContain("tell me what you know");
  expect(last).toContain("Forget it");
  story.comment("/diff");
  await story.botComment(/Changes so far: 1 file/);
});

test("/ready turns the worker's draft into an ordinary pull request, in the issue and in the pull request", async () => {
  const story = world.open({ title: "A draft", script: byTurn(edit, openPull, { text: "Opened." }) });
  story.comment("/run fixer");
  story.comment(`/approve ${approvalIdIn(await story.botComment(/asks for approval/))}`);
  const { body: status } = await story.botComment(/is done and is waiting for review/);
  const number = Number(/\/pull\/(\d+)\)/.exec(status)?.[1]);
  const draft = async () =>
    Object.values(await world.github.snapshot())
      .flatMap(({ pulls }) => pulls)
      .find((pull) => pull.number === number)?.pull?.draft;
  expect(await draft()).toBe(true);

  story.comment("/ready");

  await story.botComment(new RegExp(`#\\S*${number} is ready for review`));
  expect(await draft()).toBe(false);
});

test("a run that is stopped while the repository is being opened continues after /resume", async () => {
  const story = world.open({ title: "Stopped early", script: alwaysReplies("All good.") });
  const { promise: released, resolve: release } = Promise.withResolvers<undefined>();
  const stopHolding = world.github.onRequest(({ path }) => (path.includes("git-upload-pack") ? released : undefined));
  story.comment("/run fixer");
  await story.botComment(/Opening the repository/);
  story.comment("/stop");
  await story.botComment(/\*\*fixer\*\* is paused/);
  stopHolding();
  release(undefined);

  story.comment("/resume");

  await story.botComment(/✅ \*\*fixer\*\*\n[\s\S]*All good\./);
});

test("after a run, a maintainer lists the tools, views the diff, pushes it by hand, and undoes the change", async () => {
  const title = "Pushed by hand";
  const edit = { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" };
  const script = byTurn(call("read_file", { path: "src/total.js" }), call("edit_file", edit), { text: "It is fixed." });
  const { issue, comment, botComment, until, comments } = world.open({ title, script });
  const branches = async () => {
    const [repository] = Object.values(await world.github.snapshot());
    return Object.keys(repository?.branches ?? {}).filter((name) => name.startsWith(`golem/${issue.number}-`));
  };
  comment("/run fixer");
  await botComment(/It is fixed\./);

  // The tools, and the options of a push.
  comment("/tools");
  expect((await botComment(/Tools that people can call/)).body).toMatch(
    /\*\*Git\*\*[\s\S]*`\/git_push` Push to Remote/,
  );
  comment("/tool git_push -i");
  expect((await botComment(/### 🔧 Push to Remote/)).body).toContain("| \\--force | yes or no | no (default: false) |");

  // Typos are answered, and people without write access run nothing.
  comment("/tool git_psh");
  await botComment(/nothing was run\.[\s\S]*Did you mean git\\_push/);
  comment("/tool git_push", "visitor");
  await botComment(/you need write access/);
  expect(await branches()).toEqual([]);

  // The diff, then the push, which has to be confirmed.
  comment("/git_diff");
  expect((await botComment(/`git_diff`, run by maintainer/)).body).toContain(
    "+export const total = (items) => items.length;",
  );
  comment('/git_push --message "Count every item once"');
  const asked = await botComment(/`git_push` (?:needs your confirmation|needs confirmation)/);
  expect(asked.body).toContain("+export const total = (items) => items.length;");
  const { id } = comment(/^\/tool git_push .*$/m.exec(asked.body)?.[0] ?? "");
  const pushed = await botComment(/`git_push`, run by maintainer/);
  expect(pushed.body).toMatch(new RegExp(`Pushed [0-9a-f]{7} to golem/${issue.number}-`));
  const [branch = ""] = await branches();
  expect(await world.github.readFile(branch, "src/total.js")).toBe("export const total = (items) => items.length;\n");
  await until(
    (thread) => thread.comments.find((one) => one.id === id && one.reactions.some((sign) => sign.endsWith("eyes"))),
    "👀 on the push",
  );

  // The status of the run says who ran what.
  await botComment(/fixer\*\* is done[\s\S]*@?maintainer ran git_push: Pushed/);
  comment("/tool undo");
  await botComment(/`undo`, run by maintainer/);

  // A command for another bot is ignored.
  const before = (await comments()).length;
  comment("/retest");
  comment("/git_status");
  expect((await botComment(/`git_status`, run by maintainer/)).body).toContain("No changes");
  expect(await comments()).toHaveLength(before + 1);
  expect(world.github.unknownRequests()).toEqual([]);
});

test("a run at its cost limit waits across a crash, and /approve +$1 by someone who may approve continues it", async () => {
  const remove = call("delete_file", { path: "README.md" });
  const story = world.open({ title: "Expensive", script: byTurn(edit, remove, { text: "It was worth it." }) });
  story.comment("/run thrifty");
  await story.botComment(/\*\*thrifty\*\* has used up its cost limit\n\nIt has cost \\?\$0\.\d+ of/);
  await collector.until(() =>
    collector.spans.some(
      ({ name, attributes }) => name === "execute_tool write_file" && attributes["golem_forge.worker"] === "thrifty",
    ),
  );
  await world.end("SIGKILL");
  await world.startProcess();

  story.comment("/approve +$1", "visitor");
  await story.botComment(/you need write access/);
  story.comment("/approve +$100");
  await story.botComment(/policy allows at most \$20\.00 per run/);
  expect(story.requests).toHaveLength(1);
  story.comment("/approve +$1");

  await story.botComment(/The cost limit is now \\?\$1\.00\. The run continues\./);
  story.comment(`/approve ${approvalIdIn(await story.botComment(/asks for approval/))}`);
  await story.botComment(/✅ \*\*thrifty\*\*\n[\s\S]*It was worth it\./);
  const later = world.open({ title: "Also costly", script: alwaysReplies("Cheap.") });
  later.comment("/run thrifty");
  await later.botComment(/✅ \*\*thrifty\*\*\n/);
  later.comment("/cost");
  await later.botComment(/\| thrifty, run `\w+` \| \\?\$0\.\d+ of \\?\$0\.001 \| \\?\$0\.\d+ \|/);

  await checkTrace();
  await checkMetrics();
  checkLog();

  const both = world.open({ title: "Two at once", script: byTurn(edit, { text: "Done." }) });
  both.comment("/run thrifty");
  await both.botComment(/has used up its cost limit/);
  both.comment("/run thrifty");
  const atLimit = async () => (await both.comments()).filter((body) => body.includes("To raise the limit of this run"));
  await expect.poll(atLimit).toHaveLength(2);
  both.comment("/approve +$1");
  const { body } = await both.botComment(/2 runs in this thread wait for a higher cost limit\. Name one: /);
  const [named] = /(?<=`)\/approve \w+ \+\$1(?=` for thrifty)/.exec(body) ?? [];
  both.comment(named ?? "");
  await both.botComment(/The cost limit is now \\?\$1\.00\. The run continues\./);
  await both.botComment(/✅ \*\*thrifty\*\*\n/);
});

/** The run of the story above is one trace, from before the crash to the end. */
async function checkTrace(): Promise<void> {
  const isRun = ({ name }: ReceivedSpan) => name === "invoke_agent thrifty";
  await collector.until(() => collector.spans.some(isRun));
  const run = collector.spans.find(isRun);
  const spans = collector.spans.filter(({ traceId }) => traceId === run?.traceId);
  const named = (name: string) => spans.filter((span) => span.name === name);

  expect(run).toMatchObject({
    parentSpanId: "",
    isError: false,
    attributes: {
      "gen_ai.agent.name": "thrifty",
      "golem_forge.outcome": "answered",
      "golem_forge.steps": 3,
      "golem_forge.cost": expect.any(Number),
    },
  });
  expect(named("execute_tool write_file")).toMatchObject([{ parentSpanId: run?.spanId }]);
  expect(named("execute_tool delete_file")).toMatchObject([
    { attributes: { "gen_ai.tool.name": "delete_file", "golem_forge.outcome": "done" } },
  ]);
  expect(named("await_approval delete_file")).toMatchObject([
    { parentSpanId: run?.spanId, attributes: { "golem_forge.outcome": "granted" } },
  ]);
  expect(named("approval.post").length).toBeGreaterThan(0);
  const calls = named("model.call").filter(({ attributes }) => attributes["golem_forge.outcome"] === "done");
  expect(calls).toHaveLength(3);
  const chats = named("chat gpt-6.1-sol");
  expect(chats.map(({ parentSpanId }) => parentSpanId).sort()).toEqual(calls.map(({ spanId }) => spanId).sort());
  expect(chats[0]?.attributes).toMatchObject({
    "gen_ai.request.model": "gpt-6.1-sol",
    "gen_ai.usage.input_tokens": expect.any(Number),
  });
  // Neither prompts nor answers leave the deployment.
  expect(JSON.stringify(spans)).not.toMatch(/Expensive|worth it|as you are told|Count every item/);
}

/** Every line is JSON, and those of a run carry its id, repository and delivery. */
function checkLog(): void {
  const lines = world
    .printed()
    .split("\n")
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line));
  const ofRuns = lines.filter(({ run }) => run !== undefined);
  const delivery = expect.stringMatching(/^[0-9a-f]{8}-/);

  expect(ofRuns).toContainEqual(
    expect.objectContaining({ msg: "The run has ended.", worker: "thrifty", outcome: "answered", delivery }),
  );
  expect(ofRuns).toContainEqual(expect.objectContaining({ msg: "An approval is requested.", tool: "delete_file" }));
  for (const line of ofRuns)
    expect(line).toMatchObject({ run: expect.any(String), repository: expect.stringMatching(/\/shop$/), delivery });
}

async function checkMetrics(): Promise<void> {
  const scrape = (headers: Record<string, string>) => fetch(`${world.url}/metrics`, { headers });
  expect((await scrape({})).status).toBe(401);
  expect((await scrape({ authorization: "Bearer another-token-of-a-scraper" })).status).toBe(401);

  const scraped = await scrape({ authorization: `Bearer ${metricsToken}` });

  expect(scraped.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  const text = await scraped.text();
  const sampleOf = (series: string) =>
    Number(
      text
        .split("\n")
        .find((line) => line.startsWith(`${series} `))
        ?.split(" ")[1],
    );
  expect(sampleOf('golem_forge_tool_calls_total{tool="delete_file",outcome="ok"}')).toBe(1);
  expect(sampleOf('golem_forge_approvals_settled_total{outcome="approved"}')).toBe(1);
  expect(sampleOf('golem_forge_approval_answer_seconds_count{outcome="approved"}')).toBe(1);
  expect(
    sampleOf('golem_forge_model_cost_dollars_total{model="openai:gpt-6.1-sol",worker="(repository)"}'),
  ).toBeGreaterThan(0);
  expect(sampleOf("golem_forge_cost_last_day_dollars")).toBeGreaterThan(0);
  expect(sampleOf('golem_forge_runs_ended_total{worker="(repository)",outcome="answered"}')).toBeGreaterThan(0);
  expect(sampleOf('golem_forge_approvals_per_run_sum{worker="(repository)"}')).toBe(1);
  expect(sampleOf('golem_forge_effects_attempted_total{kind="tool.execute",outcome="done"}')).toBeGreaterThan(0);
  expect(sampleOf("golem_forge_deliveries_waiting")).toBe(0);
  expect(sampleOf('golem_forge_runs{state="awaitingBudget"}')).toBe(0);
  expect(text).toMatch(/^golem_forge_event_loop_delay_seconds\{quantile="0.99"\} [\d.e-]+$/m);
  expect(text).not.toContain("shop");
  await collector.until(() => collector.metrics.has("golem_forge_runs_ended"));
  expect(world.printed().match(/"msg":"Metrics could not be exported: Bad Request"/g)).toHaveLength(1);
}

test("a worker in chat mode answers each message in a comment, until /exit", async () => {
  const story = world.open({ title: "Let us talk", script: byTurn({ text: "Hello there." }, { text: "I am fine." }) });

  story.comment("/run talker");
  await story.botComment(/💬 \*\*talker\*\*\n[\s\S]*Hello there\./);
  story.comment("How are you?");
  await story.botComment(/💬 \*\*talker\*\*\n[\s\S]*I am fine\./);
  story.comment("/exit");

  await story.botComment(/✅ \*\*talker\*\*\n[\s\S]*ended this run/);
});
