import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listen } from "#playground/github/listen.ts";
import { byTurn, call, inSequence, type Stories, startStories } from "../support/forge-stories.ts";
import { appProgram } from "../support/forge-world.ts";
import { privateKey } from "../support/test-github.ts";

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "golem-forge-configuration-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

describe("a wrong setting is reported in a sentence, and no secret is printed", () => {
  test("missing settings: all of them at once", async () => {
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

  test.each([
    [
      "a folder of workers that does not exist",
      { GOLEM_FORGE_WORKERS: "/no/such/folder" },
      "cannot be read: /no/such/folder",
    ],
    [
      "no model at all",
      { GOLEM_FORGE_MODEL: "", OPENAI_API_KEY: "" },
      "No model can be used, so no worker can run. Set GOLEM_FORGE_MODEL",
    ],
    ["an unknown provider", { GOLEM_FORGE_MODEL: "antropic:claude" }, "Did you mean anthropic:claude?"],
  ])("%s", async (_, environment, message) => {
    const { code, printed } = await start({ ...complete(), ...environment });

    expect(code).toBe(1);
    expect(printed).toContain(message);
    expect(printed).not.toMatch(/\n {4}at /);
  });

  test("a Node that is too old", async () => {
    const pretend = 'Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.20.2"}})';

    const { code, printed } = await start({
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(pretend)}`,
    });

    expect(code).toBe(1);
    expect(printed).toMatch(/^Golem Forge needs Node 24 or newer, and this is v[\d.]+\.\n$/);
  });

  test("a port in use", async () => {
    const other = createServer();
    const port = await listen(other, 0);

    const { code, printed } = await start({ ...complete(), PORT: String(port) });

    other.close();
    expect(code).toBe(1);
    expect(printed).toMatch(/cannot listen: address already in use 127\.0\.0\.1:\d+\. Set HOST and PORT/);
    expect(printed).not.toMatch(/\n {4}at /);
  });
});

describe("while it runs", () => {
  let forge: Stories;
  let memoryAtStart: number;

  beforeAll(async () => {
    forge = await startStories({ environment: { GOLEM_FORGE_STOP_SECONDS: "1" } });
    await forge.startProcess();
  });
  afterAll(() => forge.close());

  test("/healthz, /readyz and the landing page answer, and no other page exists", async () => {
    expect(await ask("/healthz")).toEqual([200, "ok\n"]);
    expect(await ask("/readyz")).toEqual([200, "ready\n"]);
    expect(await ask("/")).toEqual([200, expect.stringContaining("Golem Forge is running")]);
    expect(await ask("/elsewhere")).toEqual([404, expect.any(String)]);
    expect(await ask("/api/github/webhooks")).toEqual([405, "Send webhooks with POST.\n"]);
  });

  test("a second process on the same database is refused", async () => {
    const { code, printed } = await start({ ...complete(), DATABASE_URL: `file:${forge.databasePath}` });

    expect(code).toBe(1);
    expect(printed).toMatch(/in use by another Golem Forge process/);
    expect(printed).not.toMatch(/\n {4}at /);
  });

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
    const { comment, botComment, until } = forge.open({
      title: "Waits",
      script: byTurn(call("ask_user", { question: "Well?" }), { text: "Well then." }),
    });
    comment("/run fixer");
    await botComment(/Well\?/);
    await until(({ comments }) => comments.find(({ body }) => /is waiting for you/.test(body)), "the status");
    await forge.end("SIGTERM");
    multiplyWaitingRuns(forge.databasePath, 20_000);
    const known = forge.github.requests.length;

    const after = await memoryOf(await forge.startProcess());
    const asked = forge.github.requests.slice(known).map(({ operation }) => operation);
    comment("Well what?");

    await botComment(/Well then\./);
    const other = asked.filter((operation) => operation !== "GET /app" && operation !== "GET /app/hook/deliveries");
    expect(other).toEqual([]);
    expect(after - memoryAtStart).toBeLessThan(80);
  });

  async function ask(path: string): Promise<[number, string]> {
    const answer = await fetch(`${forge.url}${path}`);
    return [answer.status, await answer.text()];
  }
});

/** Runs the app with exactly this environment until it exits. */
function start(environment: Record<string, string>): Promise<{ code: number | null; printed: string }> {
  const child = spawn(process.execPath, [appProgram], {
    env: { PATH: process.env.PATH ?? "", ...environment },
    cwd: directory,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (printed += text));
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, printed })));
}

/** All required settings, with a new database. */
function complete(): Record<string, string> {
  return {
    APP_ID: "7",
    PRIVATE_KEY: privateKey,
    WEBHOOK_SECRET: "a secret",
    HOST: "127.0.0.1",
    PORT: "0",
    LOG_LEVEL: "silent",
    GOLEM_FORGE_MODEL: "openai:gpt-5",
    OPENAI_API_KEY: "a key of nobody",
    GOLEM_FORGE_SANDBOX: "off",
    GHE_HOST: "127.0.0.1:1",
    GHE_PROTOCOL: "http",
    DATABASE_URL: `file:${join(directory, `${Math.random()}.db`)}`,
  };
}

/** The resident memory of a process in megabytes. */
async function memoryOf({ pid }: ChildProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s*(\d+)/.exec(status)?.[1]) / 1024;
}

/** Copies the waiting run of a closed database, each copy with another thread. */
function multiplyWaitingRuns(path: string, times: number): void {
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
    insert into runs (${columns.join(", ")}) select ${values} from runs, n where status = 'waiting';
    insert into specs (run_id, spec) select copy.id, specs.spec from runs copy, specs
      where copy.id like 'copy%' and specs.run_id = (select id from runs where status = 'waiting' and id not like 'copy%');
  `);
  database.close();
}
