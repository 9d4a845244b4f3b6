import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { RequestRecord } from "#playground/github/request-log.ts";
import type { ModelReply } from "#playground/model/model-server.ts";
import { actionRepository, startActionWorld } from "../support/action-world.ts";
import { type CrashSchedule, playSchedule, scheduleOf } from "../support/crash-schedule.ts";
import { changesScript, fixScript, playChanges, playFix, playReview, reviewScript } from "../support/fix-story.ts";
import { messageText, type Script } from "../support/forge-stories.ts";
import { approvalIdIn, type Forge, startForge } from "../support/forge-world.ts";
import { postgresPrograms, whyNoPostgres } from "../support/postgres-server.ts";
import { testDatabases } from "../support/shared-postgres.ts";

const newDatabase = testDatabases();

/** `all` tries every moment of the story, which takes minutes; otherwise a few of each kind, evenly spread. */
const everyMoment = process.env.CRASH_SWEEP === "all";
/** The number of commits varies with the number of status edits. This share of them is reached in every run of the story. */
const reliableShare = 0.85;

interface Database {
  /** Loaded into the app to kill it at a commit. */
  killer: string;
  environment: () => Promise<Record<string, string>>;
}

const sqlite: Database = {
  killer: fileURLToPath(new URL("../support/kill-at-commit.ts", import.meta.url)),
  environment: async () => ({}),
};
const postgres: Database = {
  killer: fileURLToPath(new URL("../support/kill-at-postgres-commit.ts", import.meta.url)),
  environment: async () => ({ DATABASE_URL: await newDatabase() }),
};

describe("kill -9 loses no work and never posts twice", { timeout: 60 * 60_000 }, () => {
  let undisturbed: Awaited<ReturnType<typeof playStory>>;

  beforeAll(async () => {
    undisturbed = await playStory(sqlite, { withReview: true });
  });

  test("kill -9 at every commit to the database loses nothing", async () => {
    const { commits, fix } = undisturbed;
    expect(commits).toBeGreaterThan(10);
    const reached = Math.floor(commits * reliableShare);
    const third = Math.floor(reached / 3);
    const points = everyMoment
      ? numbers(commits).flatMap((at) => [
          { killAt: [`before:${at}`], isReached: at <= reached },
          { killAt: [`after:${at}`], isReached: at <= reached },
        ])
      : [{ killAt: [`before:${third}`, `after:${third}`], isReached: true }];

    await inPairs(points, async ({ killAt, isReached }) => {
      const killed = await playStory(sqlite, { killAt });
      expect(killed.kills, `${killAt} was reached`).toBeOneOf(isReached ? [killAt.length] : [0, 1]);
      expect(killed.fix, `killed ${killAt}`).toEqual(fix);
    });
  });

  test("kill -9 between a write on GitHub and the record of it: each comment of a review gets one answer, and there is one push", async () => {
    const { writes, fixWrites, fix, review } = undisturbed;
    expect(review).toMatchObject({ pushes: 2, requests: 1, changes: "Items count once.\n" });
    expect(JSON.stringify(review).split("Done in ")).toHaveLength(3);
    expect(fixWrites).toBeGreaterThan(5);
    const firstAnswer = writes.findIndex((write) => write.includes("/replies"));
    expect(firstAnswer).toBeGreaterThan(fixWrites);
    const stories = everyMoment ? [...writes.keys()].map((write) => [write]) : [[0, fixWrites - 1, firstAnswer]];

    await inPairs(stories, async (indexes) => {
      const killAfterWrites = indexes.map((index) => writes[index] ?? "");
      const withReview = indexes.some((index) => index >= fixWrites);
      const killed = await playStory(sqlite, { killAfterWrites, withReview });
      expect(killed.kills).toBe(killAfterWrites.length + (withReview ? undisturbed.kills : 0));
      expect(killed.fix, `killed after ${killAfterWrites}`).toEqual(fix);
      expect(killed.review, `killed after ${killAfterWrites}`).toEqual(withReview ? review : undefined);
    });
  });

  test.runIf(everyMoment)(
    "kill -9 loses nothing while a push is undone and a branch force-pushed, and while its pull request is closed and reopened",
    async () => {
      const calm = await playStory(sqlite, { withChanges: true });
      const later = calm.writes.slice(calm.fixWrites);
      expect(later.length).toBeGreaterThan(10);

      await inPairs(later, async (write) => {
        const killed = await playStory(sqlite, { killAfterWrites: [write], withChanges: true });
        expect(killed.changes, `killed after ${write}`).toEqual(calm.changes);
      });
    },
  );

  // The story in github-action.test.ts covers one moment of it.
  test.runIf(everyMoment).each<JobFault["kind"]>(["kill", "race"])(
    "jobs of the GitHub Action lose nothing after each write on GitHub and each push of the saved runs: %s",
    async (kind) => {
      const calm = await playJobs();

      await inPairs([...calm.writes.keys()], async (write) => {
        const { result, faults } = await playJobs({ kind, write });
        const reached = Math.floor(calm.writes.length * reliableShare);
        expect(faults, `write ${write} was reached`).toBeOneOf(write <= reached ? [1] : [0, 1]);
        expect(result, `${kind} after write ${write}: ${calm.writes[write]}`).toEqual(calm.result);
      });
    },
  );

  if (!postgresPrograms) test.skip(`needs PostgreSQL: ${whyNoPostgres}`, () => undefined);

  test.each<[string, CrashSchedule["database"], number]>([
    ["a SQLite database", "sqlite", 8],
    ["two replicas and a PostgreSQL database", "postgres", 27],
  ])("random faults over %s lose nothing", async (_, database, seed) => {
    // `npm run crash` plays hundreds over both.
    if (database === "postgres" ? !postgresPrograms : postgresPrograms && !everyMoment) return;
    const schedule = scheduleOf(seed, [database]);
    const url = database === "postgres" ? await newDatabase() : undefined;

    const { problem, injected } = await playSchedule(schedule, undisturbed.fix, url === undefined ? {} : { url });

    expect(problem).toBeUndefined();
    expect(injected).toBeGreaterThan(0);
  });

  test.skipIf(!postgresPrograms)("kill -9 with PostgreSQL loses nothing", async () => {
    const points: Story[] = everyMoment ? await everyPoint(postgres) : [{ killAt: ["after:19"] }];

    await inPairs(points, async (point) => {
      const { fix, kills } = await playStory(postgres, point);
      expect(kills, `${JSON.stringify(point)} was reached`).toBe(1);
      expect(fix, `killed ${JSON.stringify(point)}`).toEqual(undisturbed.fix);
    });
  });
});

describe("three calls that ask at once, with ids that a provider repeats", () => {
  const paths = ["a", "b", "c"].map((name) => `.github/${name}.yml`);
  const asksThree = (content: string): ModelReply => ({
    calls: paths.map((path, index) => ({ id: `call_${index}`, name: "write_file", args: { path, content } })),
  });
  const script: Script = (request) => {
    const answers = request.messages.filter(({ role }) => role === "tool").length;
    if (answers === 0) return asksThree("one");
    return answers === 3 ? asksThree("two") : { text: "Done." };
  };

  test("answers out of order reach their own calls across kill -9", async () => {
    const forge = await startForge({ script });
    onTestFinished(forge.close);
    await forge.startProcess();
    const { github } = forge;
    const { number } = github.as("visitor").openIssue({ title: "Three files", body: "Write them." });
    github.as("maintainer").comment(number, "/run fixer");
    const answer = async (command: string, id: string | undefined, reason = "") => {
      github.as("maintainer").comment(number, `/${command} ${id} ${reason}`);
      await forge.botComment(number, new RegExp(`(Approved|Denied) by maintainer[\\s\\S]*approval \`${id}\``));
    };
    const crash = async () => {
      await forge.end("SIGKILL");
      await forge.startProcess();
    };

    const first = await requestsFor(forge, number, "one");
    await answer("approve", first.get(".github/c.yml"));
    await crash();
    await answer("deny", first.get(".github/a.yml"), "because a is not ours");
    await answer("approve", first.get(".github/b.yml"));
    const second = await requestsFor(forge, number, "two");
    await answer("deny", second.get(".github/c.yml"), "because c is done");
    await answer("approve", second.get(".github/b.yml"));
    await crash();
    await answer("deny", second.get(".github/a.yml"), "because a is not ours");
    await forge.botComment(number, /Done\./);

    const results =
      forge.model.requests
        .at(-1)
        ?.messages.filter(({ role }) => role === "tool")
        .map(messageText) ?? [];
    expect(results.map((text) => /not ours|is done/.exec(text)?.[0] ?? "written")).toEqual([
      "not ours",
      "written",
      "written",
      "not ours",
      "written",
      "is done",
    ]);
  });

  /** The approval ids of the three requests, by the path that each would write. */
  async function requestsFor({ inThread }: Forge, number: number, content: string): Promise<Map<string, string>> {
    return inThread(
      number,
      ({ comments }) => {
        const asking = comments.filter(
          ({ body }) => body.includes("asks for approval") && body.includes(`+${content}`),
        );
        const found = asking.map((comment) => [pathIn(comment.body), approvalIdIn(comment)] as const);
        return found.length === 3 ? new Map(found) : undefined;
      },
      `three requests to write ${content}`,
    );
  }

  function pathIn(body: string): string {
    return paths.find((path) => body.includes(`File **\`${path}\``)) ?? "";
  }
});

async function everyPoint(database: Database): Promise<Story[]> {
  const { commits, writes } = await playStory(database, {});
  const reached = numbers(Math.floor(commits * reliableShare));
  return [
    ...reached.flatMap((at) => [{ killAt: [`before:${at}`] }, { killAt: [`after:${at}`] }]),
    ...writes.map((write) => ({ killAfterWrites: [write] })),
  ];
}

interface Story {
  /** For each process in turn, the commit at which it is killed. */
  killAt?: string[];
  /** The writes on GitHub after which the process that wrote is killed, named as in the result of `playStory`. */
  killAfterWrites?: string[];
  /** Plays a review of the pull request as well, during which the app is killed once. */
  withReview?: boolean;
  /** Plays instead what happens to a pull request whose push is undone, and which is closed and reopened. */
  withChanges?: boolean;
}

/** Plays the story from /run to the answer. Whenever the app dies it is started again, as a supervisor would. */
async function playStory(
  { killer, environment }: Database,
  { killAt = [], killAfterWrites = [], withReview = false, withChanges = false }: Story,
) {
  const nodeOptions = ["--import", killer];
  const script = withChanges ? changesScript : reviewScript;
  const forge = await startForge({ script, nodeOptions, environment: await environment() });
  const { github, databasePath } = forge;
  const commitLog = `${databasePath}.commits`;
  const writes: string[] = [];
  let kills = 0;
  let killed: Promise<unknown> | undefined;
  let ended = false;

  const keepRunning = async (more: Record<string, string> = {}): Promise<void> => {
    const app = await forge.startProcess({ ...more, KILL_AT: killAt[kills] ?? "" });
    redeliverFailed(forge);
    const exited = app.exitCode === null && app.signalCode === null ? once(app, "exit") : Promise.resolve();
    void exited.then(() => {
      if (ended) return;
      kills += 1;
      return keepRunning();
    });
  };
  github.afterWrite(({ method, operation = method }) => {
    // The number of status edits depends on the clock.
    if (ended || method === "PATCH" || /access_tokens/.test(operation)) return undefined;
    const write = `${operation} ${writes.filter((one) => one.startsWith(`${operation} `)).length + 1}`;
    writes.push(write);
    if (!killAfterWrites.includes(write)) return undefined;
    killed = forge.end("SIGKILL");
    return "drop";
  });

  try {
    await keepRunning({ COMMIT_LOG: commitLog });
    const fix = await playFix(forge);
    const fixWrites = writes.length;
    const review = withReview ? await playReview(forge) : undefined;
    const changes = withChanges ? await playChanges(forge) : undefined;
    // The last write ends the story before the process has ended.
    await killed;
    ended = true;
    await forge.end("SIGTERM");
    return { fix, review, changes, writes, fixWrites, kills, commits: (await readFile(commitLog, "utf8")).length };
  } finally {
    ended = true;
    await forge.close();
  }
}

/**
 * A fault after a write of a job on GitHub. A job that dies before one leaves what it leaves after the write before, because
 * its files die with it.
 */
interface JobFault {
  /** `race`: the job is suspended, and continues when another one has taken the lease over. */
  kind: "kill" | "race";
  /** The number of the write, from 0. */
  write: number;
}

/** Plays the story with jobs of the GitHub Action. What a killed job leaves is found by the next scheduled one. */
async function playJobs(fault?: JobFault) {
  const environment = { GOLEM_FORGE_LEASE_SECONDS: "6" };
  // Jobs that wait for the lease are suspended as well, and must not take the place of the one that takes over.
  const parallel = fault?.kind === "race" ? Number.POSITIVE_INFINITY : 1;
  const world = await startActionWorld({ script: fixScript, environment, parallel });
  const { github, runner } = world;
  const writes: string[] = [];
  let struck: RequestRecord | undefined;
  let faults = 0;
  let isSuspended = false;
  const strike = () => {
    faults += 1;
    isSuspended = fault?.kind === "race";
    runner.kill(isSuspended ? "SIGSTOP" : "SIGKILL");
    void runner.triggerSchedule(actionRepository);
    return isSuspended ? undefined : "drop";
  };
  github.onRequest((request) => {
    const { method, operation } = request;
    if (method === "GET" || operation === "git-upload-pack") return undefined;
    writes.push(operation ?? method);
    if (writes.length - 1 === fault?.write) struck = request;
    return undefined;
  });
  github.afterWrite((request) => {
    if (request === struck) return strike();
    if (isSuspended && request.operation === "git-receive-pack") {
      isSuspended = false;
      runner.kill("SIGCONT");
    }
    return undefined;
  });
  try {
    const result = await playFix(world);
    return { result, writes, faults };
  } catch (error) {
    throw new Error(`${JSON.stringify(fault)}: ${error instanceof Error ? error.message : error}`);
  } finally {
    await world.close();
  }
}

/** GitHub does not redeliver by itself: failed deliveries are sent again, as an operator would. */
function redeliverFailed({ github }: Forge): void {
  const byGuid = Map.groupBy(github.deliveries, ({ guid }) => guid);
  for (const attempts of byGuid.values()) {
    const failed = attempts.every(({ statusCode }) => statusCode !== undefined && statusCode !== 200);
    if (failed && attempts[0]) github.redeliver(attempts[0].id);
  }
}

/** From 1 to `last`. */
function numbers(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}

/** Runs two at a time, as many as the smallest machine has cores. */
async function inPairs<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const remaining = [...items];
  const next = async (): Promise<void> => {
    for (let item = remaining.shift(); item !== undefined; item = remaining.shift()) await work(item);
  };
  await Promise.all([next(), next()]);
}
