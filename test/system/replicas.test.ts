import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { SnapshotThread } from "#playground/github/snapshot.ts";
import { type Stories, startStories } from "../support/forge-stories.ts";
import type { Replica } from "../support/forge-world.ts";
import {
  type PostgresServer,
  postgresPrograms,
  restartPostgresServer,
  startPostgresServer,
  stopPostgresServer,
  whyNoPostgres,
} from "../support/postgres-server.ts";
import { testDatabases } from "../support/shared-postgres.ts";

const newDatabase = testDatabases();

if (!postgresPrograms) test.skip(`needs PostgreSQL: ${whyNoPostgres}`, () => undefined);

describe.skipIf(!postgresPrograms)("a replica that was suspended", () => {
  let stories: Stories;
  /** Those that still run after a test. */
  let replicas: Replica[] = [];

  beforeAll(async () => {
    const environment = { DATABASE_URL: await newDatabase(), GOLEM_FORGE_STOP_SECONDS: "0" };
    stories = await startStories({ environment });
  });
  afterAll(() => stories.close());

  const deliverTo = ({ url }: Replica) =>
    (stories.github.webhook = { url: `${url}/api/github/webhooks`, secret: stories.webhookSecret });
  const outcome = /### ✅ \*\*fixer\*\*\n/;

  test("a replica that was suspended does not post what another one has posted meanwhile", async () => {
    // The outcome waits in this process for four seconds after the status.
    const slow = await stories.startReplica({ GOLEM_FORGE_WRITE_INTERVAL_MS: "4000" });
    onTestFinished(() => void slow.end("SIGKILL"));
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const story = stories.open({
      title: "Suspended before it posts",
      script: async () => {
        await answered;
        return { text: "Done." };
      },
    });
    deliverTo(slow);
    story.comment("/run fixer");
    await story.botComment(/is working/);
    answer();
    await pause(1_000);

    slow.send("SIGSTOP");
    const other = await stories.startReplica();
    await story.until(({ comments }) => comments.some(({ body }) => outcome.test(body)) || undefined, "the outcome");
    slow.send("SIGCONT");
    await pause(5_000);

    expect((await story.comments()).filter((body) => outcome.test(body))).toHaveLength(1);
    expect([slow, other].map((replica) => replica.hasEnded())).toEqual([false, false]);
    replicas = [other];
  });

  test("a replica that was suspended takes back a comment that another one has posted before it", async () => {
    const first = replicas[0] ?? (await stories.startReplica());
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let isHeld = false;
    const restore = stories.github.onRequest(async ({ method, path, body }) => {
      if (isHeld || method !== "POST" || !path.includes("/comments") || !JSON.stringify(body).includes("outcome%2F"))
        return;
      isHeld = true;
      // The request has left the process, and reaches GitHub after the other replica's.
      first.send("SIGSTOP");
      await released;
    });
    onTestFinished(() => {
      restore();
      release();
    });
    const story = stories.open({
      title: "Suspended while it posts",
      script: () => ({ text: "Done." }),
    });
    deliverTo(first);
    story.comment("/run fixer");
    await expect.poll(() => isHeld).toBe(true);

    replicas = [first, await stories.startReplica()];
    const posted = await story.botComment(outcome);
    release();
    await story.until(
      ({ comments }) => comments.filter(({ body }) => outcome.test(body)).length === 2 || undefined,
      "the second comment",
    );
    first.send("SIGCONT");

    const left = await story.until(({ comments }) => {
      const found = comments.filter(({ body }) => outcome.test(body));
      return found.length === 1 ? found : undefined;
    }, "one comment");
    expect(left.map(({ id }) => id)).toEqual([posted.id]);
  });

  test("a status that reached GitHub after a newer one of another replica is replaced by the newest", async () => {
    await Promise.all(replicas.map((replica) => replica.end("SIGKILL")));
    const first = await stories.startReplica();
    deliverTo(first);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let isHeld = false;
    const restore = stories.github.onRequest(async ({ method, body }) => {
      if (isHeld || method !== "PATCH" || !/is working.*status%2F/.test(JSON.stringify(body))) return;
      isHeld = true;
      first.send("SIGSTOP");
      await released;
    });
    onTestFinished(() => {
      restore();
      release();
      void first.end("SIGKILL");
    });
    const story = stories.open({
      title: "Suspended while it shows its status",
      script: ({ messages }) =>
        messages.some(({ role }) => role === "tool")
          ? { text: "Done." }
          : { calls: [{ name: "read_file", args: { path: "README.md" } }] },
    });
    const shown =
      (pattern: RegExp) =>
      ({ comments }: Pick<SnapshotThread, "comments">) =>
        comments.find(({ body }) => body.includes("status%2F") && pattern.test(body));
    story.comment("/run fixer");
    await expect.poll(() => isHeld, { timeout: 60_000 }).toBe(true);

    await stories.startReplica();
    await story.until(shown(/is done/), "the newest status");
    release();
    await story.until(shown(/is working/), "the late status");
    first.send("SIGCONT");

    await story.until(shown(/is done/), "the newest status again");
  });
});

describe.skipIf(!postgresPrograms)("a replica with a database of its own", () => {
  let folder: string;
  let server: PostgresServer;
  let stories: Stories;
  let replica: Replica;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "golem-forge-postgres-"));
    await chmod(folder, 0o755);
    server = await startPostgresServer(join(folder, "server"));
    const environment = { DATABASE_URL: server.url("postgres"), GOLEM_FORGE_STOP_SECONDS: "0" };
    stories = await startStories({ environment });
    const fails = `process.once("SIGUSR2", () => {
      process.once("SIGUSR2", () => { throw new Error("an unexpected defect"); });
      void Promise.reject(new Error("a failed operation"));
      setImmediate(() => { throw Object.assign(new Error("a broken stream"), { code: "EPIPE", syscall: "write" }); });
    })`;
    const preload = `--import data:text/javascript,${encodeURIComponent(fails)}`;
    replica = await stories.startReplica({ NODE_OPTIONS: preload });
    stories.github.webhook = { url: `${replica.url}/api/github/webhooks`, secret: stories.webhookSecret };
  });
  afterAll(async () => {
    await stories.close();
    await stopPostgresServer(server.pid);
    await rm(folder, { recursive: true, force: true });
  });

  test.each([
    ["fast", "SIGINT"],
    ["immediate", "SIGQUIT"],
  ] as const)("a replica waits (%s shutdown), joins again, and misses no delivery", async (mode, signal) => {
    const readiness = async () => (await fetch(`${replica.url}/readyz`)).text();
    const before = await readiness();
    expect(before).toMatch(/^ready \(replica \d+\)\n$/);
    let isResumed = false;
    const story = stories.open({
      title: `A long model call, ${mode}`,
      script: () => (isResumed ? { text: "Finished thinking." } : { hang: true }),
    });
    story.comment("/run fixer");
    await story.asked;

    replica.send("SIGSTOP");
    process.kill(server.pid, signal);
    await pause(500);
    replica.send("SIGCONT");
    await expect.poll(readiness).toMatch(/cannot be used at present|joining again/);
    story.comment("/stop");
    await stories.github.deliveriesSettled();
    expect(stories.github.deliveries.at(-1)?.statusCode).toBe(503);
    server = await restartPostgresServer(join(folder, "server"), server);

    await expect.poll(readiness).toMatch(/^ready \(replica/);
    expect(await readiness()).not.toBe(before);
    // The delivery that failed in the meantime is requested again automatically.
    await story.botComment(/\*\*fixer\*\* is paused/);
    isResumed = true;
    story.comment("/resume");
    await story.botComment(/Finished thinking\./);
    expect(replica.hasEnded()).toBe(false);
  });

  test("an operation that fails unnoticed or a broken stream does not end the process, and any other unhandled exception ends it with a line that says so", async () => {
    replica.send("SIGUSR2");
    await expect.poll(stories.printed).toMatch(/a failed operation[\s\S]*a broken stream/);
    expect((await fetch(`${replica.url}/readyz`)).status).toBe(200);
    replica.send("SIGUSR2");

    await expect.poll(replica.hasEnded).toBe(true);
    expect(await replica.end("SIGKILL")).toBe(1);
    expect(stories.printed()).toMatch(/"level":60,.*The process is exiting because of a bug\. .*an unexpected defect/);
  });
});
