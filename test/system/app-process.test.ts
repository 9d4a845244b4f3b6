import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { alwaysReplies, byTurn, call, inSequence, type Stories, startStories } from "../support/forge-stories.ts";
import { appProgram, approvalIdIn, forgeRepository } from "../support/forge-world.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from "../support/otlp-receiver.ts";

let forge: Stories;
let collector: OtlpReceiver;
let memoryAtStart: number;

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
    files: { ...commit.files, ".github/workers/thrifty.worker": thrifty },
  }));
  collector = await startOtlpReceiver();
  forge = await startStories({
    repositories: [{ ...forgeRepository, commits }],
    environment: {
      GOLEM_FORGE_METRICS_TOKEN: metricsToken,
      GOLEM_FORGE_STOP_SECONDS: "1",
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: "100",
      OTEL_METRIC_EXPORT_INTERVAL: "500",
      LOG_LEVEL: "info",
    },
  });
  await forge.startProcess();
});
afterAll(async () => {
  await forge.close();
  await collector.close();
});

/** Leaves requests of the app unanswered until the returned function is called. */
function silenceGitHub(): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  const restore = forge.github.onRequest(() => promise.then(() => undefined));
  return () => {
    restore();
    resolve();
  };
}

const edit = call("write_file", { path: "NOTES.md", content: "Count every item once.\n" });

const outcome = /### ✅ \*\*fixer\*\*\n/;

test("a run at its cost limit waits across a crash, and /approve +$1 by someone who may approve continues it", async () => {
  const remove = call("delete_file", { path: "README.md" });
  const story = forge.open({ title: "Expensive", script: byTurn(edit, remove, { text: "It was worth it." }) });
  story.comment("/run thrifty");
  await story.botComment(/\*\*thrifty\*\* has used up its cost limit\n\nIt has cost \\?\$0\.\d+ of/);
  await collector.until(() =>
    collector.spans.some(
      ({ name, attributes }) => name === "execute_tool write_file" && attributes["golem_forge.worker"] === "thrifty",
    ),
  );
  await forge.end("SIGKILL");
  await forge.startProcess();

  story.comment("/approve +$1", "visitor");
  await story.botComment(/you need write access/);
  story.comment("/approve +$100");
  await story.botComment(/policy allows at most \$20\.00 per run/);
  expect(story.requests).toHaveLength(1);
  story.comment("/approve +$1");

  await story.botComment(/The cost limit is now \\?\$1\.00\. The run continues\./);
  story.comment(`/approve ${approvalIdIn(await story.botComment(/asks for approval/))}`);
  await story.botComment(/✅ \*\*thrifty\*\*\n[\s\S]*It was worth it\./);
  const later = forge.open({ title: "Also costly", script: alwaysReplies("Cheap.") });
  later.comment("/run thrifty");
  await later.botComment(/✅ \*\*thrifty\*\*\n/);
  later.comment("/cost");
  await later.botComment(/\| thrifty, run `\w+` \| \\?\$0\.\d+ of \\?\$0\.001 \| \\?\$0\.\d+ \|/);

  await checkTrace();
  await checkMetrics();
  checkLog();

  const both = forge.open({ title: "Two at once", script: byTurn(edit, { text: "Done." }) });
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

test("a delivery that was acknowledged survives kill -9", async () => {
  const { comment, botComment, comments } = forge.open({ title: "Killed" });
  const answer = silenceGitHub();
  comment("/run fixer");
  await forge.github.deliveriesSettled();
  await forge.end("SIGKILL");
  answer();

  await forge.startProcess();

  await botComment(outcome);
  expect((await comments()).filter((body) => outcome.test(body))).toHaveLength(1);
});

const canLimit = spawnSync("prlimit", ["--version"]).status === 0;

test.skipIf(!canLimit)(
  "while the database cannot be written /readyz says so, the log says why, and deliveries are refused; then they are requested again, and runs continue",
  async () => {
    const { comment, botComment } = forge.open({ title: "Full" });
    const reply = Promise.withResolvers<void>();
    const active = forge.open({
      title: "Active",
      script: () => reply.promise.then(() => ({ text: "Done." })),
    });
    active.comment("/run fixer");
    await active.asked;
    // Like a full disk, the limit lets no file grow.
    const limitFiles = (max: string) => execFileSync("prlimit", [`--pid=${forge.pid()}`, `--fsize=${max}:unlimited`]);
    const readiness = async () => (await fetch(`${forge.url}/readyz`)).text();

    limitFiles("1");
    comment("/run fixer");
    await expect.poll(() => forge.github.deliveries.map(({ statusCode }) => statusCode)).toContain(503);
    reply.resolve();
    await expect.poll(readiness).toBe("The database cannot be used at present. The log says why.\n");
    expect(forge.printed()).toMatch(/forge\.db cannot be read or written: .*Check its disk/);
    limitFiles("unlimited");

    await expect.poll(readiness).toBe("ready\n");
    await botComment(outcome);
    await active.botComment(outcome);
  },
);

test("SIGTERM during a model call exits with 0 in time, and the run continues at the next start", async () => {
  const script = inSequence({ hang: true, text: "Let me th" }, { text: "Where was I? Done." });
  const { comment, botComment, asked, requests } = forge.open({ title: "Interrupted", script });
  comment("/run fixer");
  await asked;

  const began = Date.now();
  expect(await forge.end("SIGTERM")).toBe(0);
  expect(Date.now() - began).toBeLessThan(60_000);
  memoryAtStart = await memoryOf(await forge.startProcess());

  await botComment(/Where was I\? Done\./);
  expect(requests).toHaveLength(2);
});

test("twenty thousand waiting runs cost the next start no memory and no requests", async () => {
  const { issue, comment, botComment, until } = forge.open({
    title: "Waits",
    script: byTurn(call("ask_user", { question: "Well?" }), { text: "Well then." }),
  });
  comment("/run fixer");
  await botComment(/Well\?/);
  await until(({ comments }) => comments.find(({ body }) => /is waiting for you/.test(body)), "the status");
  await forge.end("SIGTERM");
  multiplyRun(forge.databasePath, issue.number, 20_000);
  const known = forge.github.requests.length;

  const after = await memoryOf(await forge.startProcess());
  const asked = forge.github.requests.slice(known).map(({ operation }) => operation);
  comment("Well what?");

  await botComment(/Well then\./);
  const other = asked.filter((operation) => operation !== "GET /app" && operation !== "GET /app/hook/deliveries");
  expect(other).toEqual([]);
  expect(after - memoryAtStart).toBeLessThan(80);
});

test("missing settings are reported, all of them at once", async () => {
  const { code, printed } = await start({ APP_ID: "seven" });

  expect(code).toBe(1);
  expect(printed).toBe(
    [
      "Golem Forge cannot start:",
      "  - APP_ID must be the App ID on your GitHub App's settings page, a number; the client ID goes into GITHUB_CLIENT_ID",
      "  - WEBHOOK_SECRET is not set",
      "  - PRIVATE_KEY or PRIVATE_KEY_PATH is not set: download a key on your GitHub App's settings page\n",
    ].join("\n"),
  );
});

test("an unexpected answer of GitHub at the start is logged as a bug, and the process exits with 1", async () => {
  const restore = forge.github.onRequest(({ operation }) => (operation === "GET /app" ? { status: 200 } : undefined));
  onTestFinished(restore);

  const app = await forge.startReplica({ DATABASE_URL: `file:${forge.databasePath}-of-another` });

  expect(await app.end("SIGKILL")).toBe(1);
  await expect.poll(forge.printed).toMatch(/The process is exiting because of a bug\..*at identifyApp/);
});

test("a Node that is too old is reported", async () => {
  const pretend = 'Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.20.2"}})';

  const { code, printed } = await start({
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(pretend)}`,
  });

  expect(code).toBe(1);
  expect(printed).toMatch(/^Golem Forge needs Node 24 or newer, and this is v[\d.]+\.\n$/);
});

/** Runs the app with exactly this environment until it exits. */
async function start(environment: Record<string, string>): Promise<{ code: number | null; printed: string }> {
  const directory = await mkdtemp(join(tmpdir(), "golem-forge-start-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const child = spawn(process.execPath, [appProgram()], {
    env: { PATH: process.env.PATH ?? "", ...environment },
    cwd: directory,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (printed += text));
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, printed })));
}

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
  const lines = forge
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
  const scrape = (headers: Record<string, string>) => fetch(`${forge.url}/metrics`, { headers });
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
  expect(forge.printed().match(/"msg":"Metrics could not be exported: Bad Request"/g)).toHaveLength(1);
}
/** The resident memory of a process in megabytes. */
async function memoryOf({ pid }: ChildProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s*(\d+)/.exec(status)?.[1]) / 1024;
}

/** Copies the run of a thread in a closed database, each copy with another thread. */
function multiplyRun(path: string, thread: number, times: number): void {
  const database = new DatabaseSync(path);
  const columns = database
    .prepare("select name from pragma_table_info('runs')")
    .all()
    .map(({ name }) => String(name));
  const changed: Record<string, string> = {
    id: "'copy' || n.value",
    root_id: "'copy' || n.value",
    thread: "100000 + n.value",
  };
  const values = columns.map((name) => changed[name] ?? name).join(", ");
  database.exec(`
    with recursive n(value) as (select 1 union all select value + 1 from n where value < ${times})
    insert into runs (${columns.join(", ")}) select ${values} from runs, n where thread = ${thread};
    insert into specs (run_id, spec) select copy.id, specs.spec from runs copy, specs
      where copy.id like 'copy%' and specs.run_id = (select id from runs where thread = ${thread});
  `);
  database.close();
}
