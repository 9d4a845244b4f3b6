import { createServer, type IncomingMessage } from "node:http";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { listen } from "#playground/github/listen.ts";
import { fixScript, playFix } from "../support/fix-story.ts";
import { type Stories, startStories } from "../support/forge-stories.ts";
import type { Replica } from "../support/forge-world.ts";
import { postgresPrograms, whyNoPostgres } from "../support/postgres-server.ts";
import { testDatabases } from "../support/shared-postgres.ts";

const newDatabase = testDatabases();

if (!postgresPrograms) test.skip(`needs PostgreSQL: ${whyNoPostgres}`, () => undefined);

describe.skipIf(!postgresPrograms)("two replicas over one PostgreSQL database", () => {
  const closing: (() => Promise<unknown>)[] = [];
  let stories: Stories;
  let sql: pg.Client;
  let replicas: (Replica & { number: number })[] = [];

  beforeAll(async () => {
    const database = await newDatabase();
    stories = await startStories({ environment: { DATABASE_URL: database, GOLEM_FORGE_STOP_SECONDS: "0" } });
    closing.push(stories.close);
    sql = new pg.Client({ connectionString: database });
    await sql.connect();
    closing.push(() => sql.end());
  });
  afterAll(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  beforeEach(async () => {
    while (replicas.length < 2) {
      const replica = await stories.startReplica();
      const { rows } = await sql.query("select max(id) as number from golem_forge.replicas");
      replicas.push({ ...replica, number: Number(rows[0].number) });
    }
  });

  const deliverTo = (url: string) =>
    (stories.github.webhook = { url: `${url}/api/github/webhooks`, secret: stories.webhookSecret });

  /** Starts a run whose first model call never ends. Webhooks go to the replica that does not hold the run. */
  async function startHangingRun() {
    const askedAt: number[] = [];
    const story = stories.open({
      title: `A long model call ${Math.random()}`,
      script: () => {
        askedAt.push(performance.now());
        return askedAt.length === 1 ? { hang: true } : { text: "Finished thinking." };
      },
    });
    deliverTo(replicas[0]?.url ?? "");
    story.comment("/run fixer");
    await story.asked;
    const { rows } = await sql.query("select holder from golem_forge.runs where thread = $1", [story.issue.number]);
    const holder = replicas.find(({ number }) => number === Number(rows[0].holder));
    const other = replicas.find((replica) => replica !== holder);
    if (!holder || !other) throw new Error("No replica holds the run.");
    deliverTo(other.url);
    const end = (signal: NodeJS.Signals) => {
      replicas = [other];
      return holder.end(signal);
    };
    return { ...story, askedAt, end };
  }

  test("/stop delivered to one replica stops a model call of the other at once", async () => {
    const { comment, botComment } = await startHangingRun();

    comment("/stop");

    await botComment(/\*\*fixer\*\* is paused/);
    comment("/resume");
    await botComment(/Finished thinking\./);
  });

  test("every delivery reaches both replicas, and everything happens once", async () => {
    const story = stories.open({ title: "The total is one too high", body: "Two items give 3.", script: fixScript });
    deliverTo(await toAll(replicas.map(({ url }) => url)));

    await playFix(stories, story.issue);

    const [repository] = Object.values(await stories.github.snapshot());
    const comments = (await story.comments()).map((body) => body.split("\n")[0]);
    expect(repository?.pulls).toHaveLength(1);
    expect(Object.keys(repository?.branches ?? {})).toHaveLength(2);
    expect(comments).toHaveLength(new Set(comments).size);
  });

  test("when a replica is killed, the other continues its run within seconds", async () => {
    const { end, askedAt, botComment } = await startHangingRun();

    await end("SIGKILL");

    await botComment(/Finished thinking\./);
    expect(askedAt).toHaveLength(2);
  });

  test("when a replica is stopped, the other continues its run", async () => {
    const { end, askedAt, botComment } = await startHangingRun();

    await end("SIGTERM");

    await botComment(/Finished thinking\./);
    expect(askedAt).toHaveLength(2);
  });

  test("a delivery that a replica acknowledged before it was killed is carried out by the other", async () => {
    const [first, second] = replicas;
    const { comment, botComment, comments } = stories.open({ title: "Acknowledged" });
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const restore = stories.github.onRequest(() => answered.then(() => undefined));
    second?.send("SIGSTOP");
    deliverTo(first?.url ?? "");
    comment("/run fixer");
    await stories.github.deliveriesSettled();

    await first?.end("SIGKILL");
    second?.send("SIGCONT");
    restore();
    answer();

    const outcome = /### ✅ \*\*fixer\*\*\n/;
    await botComment(outcome);
    expect((await comments()).filter((body) => outcome.test(body))).toHaveLength(1);
  });

  /** Starts a server that forwards every webhook to all of these at the same time. */
  async function toAll(urls: string[]): Promise<string> {
    const server = createServer(async (request, response) => {
      const body = await readBody(request);
      const headers = Object.fromEntries(
        Object.entries(request.headers).filter(([name]) => name.startsWith("x-") || name === "content-type"),
      ) as Record<string, string>;
      const answers = await Promise.all(
        urls.map(async (url) => (await fetch(`${url}/api/github/webhooks`, { method: "POST", headers, body })).status),
      );
      response.statusCode = Math.max(...answers);
      response.end();
    });
    const port = await listen(server, 0);
    closing.push(async () => server.close());
    return `http://127.0.0.1:${port}`;
  }
});

async function readBody(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}
