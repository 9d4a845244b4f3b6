import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { fixScript, playFix } from "../support/fix-story.ts";
import { type Forge, startForge } from "../support/forge-world.ts";
import { postgresPrograms, whyNoPostgres } from "../support/postgres-server.ts";
import { newDatabase } from "../support/shared-postgres.ts";

/** Every moment of the story when this is `all`, which takes minutes; otherwise a few of each kind, spread evenly. */
const everyMoment = process.env.CRASH_SWEEP === "all";
/** The last commits come or not, by how often the status is drawn: only so many does every story reach. */
const sure = 0.85;

interface Kept {
  /** Loaded into the app, to end it at a commit. */
  killer: string;
  environment: () => Promise<Record<string, string>>;
}

const sqlite: Kept = {
  killer: fileURLToPath(new URL("../support/kill-at-commit.ts", import.meta.url)),
  environment: async () => ({}),
};
const postgres: Kept = {
  killer: fileURLToPath(new URL("../support/kill-at-postgres-commit.ts", import.meta.url)),
  environment: async () => ({ DATABASE_URL: await newDatabase() }),
};

describe("kill -9 loses nothing and doubles nothing on GitHub", { timeout: 60 * 60_000 }, () => {
  let undisturbed: Awaited<ReturnType<typeof playStory>>;

  beforeAll(async () => {
    undisturbed = await playStory(sqlite, {});
  }, 60_000);

  test("at every step that is written down", async () => {
    expect(undisturbed.commits).toBeGreaterThan(10);
    const reached = Math.floor(undisturbed.commits * sure);
    const points = everyMoment
      ? numbers(undisturbed.commits).flatMap((at) => [
          { side: "before", at },
          { side: "after", at },
        ])
      : [
          { side: "before", at: Math.floor(reached / 3) },
          { side: "after", at: Math.floor((reached * 2) / 3) },
        ];

    await inPairs(points, async ({ side, at }) => {
      const { held, kills } = await playStory(sqlite, { killAt: `${side}:${at}` });
      expect(kills, `${side}:${at} was reached`).toBeOneOf(at <= reached ? [1] : [0, 1]);
      expect(held, `killed ${side}:${at}`).toEqual(undisturbed.held);
    });
  });

  test("between what GitHub did and what we wrote down about it", async () => {
    expect(undisturbed.writes.length).toBeGreaterThan(5);

    const last = undisturbed.writes.length - 1;
    await inPairs(
      everyMoment ? [...undisturbed.writes.keys()] : [0, Math.floor(last / 2), last],
      async (killAfterWrite) => {
        const { held, kills } = await playStory(sqlite, { killAfterWrite });
        expect(kills).toBe(1);
        expect(held, `killed after ${undisturbed.writes[killAfterWrite]}`).toEqual(undisturbed.held);
      },
    );
  });

  if (!postgresPrograms) test.skip(`over PostgreSQL it is not tested here: ${whyNoPostgres}`, () => undefined);

  test.skipIf(!postgresPrograms)("over PostgreSQL, too", async () => {
    const points: Story[] = everyMoment ? await everyPoint(postgres) : [{ killAt: "after:19" }, { killAfterWrite: 3 }];

    await inPairs(points, async (point) => {
      const { held, kills } = await playStory(postgres, point);
      expect(kills, `${JSON.stringify(point)} was reached`).toBe(1);
      expect(held, `killed ${JSON.stringify(point)}`).toEqual(undisturbed.held);
    });
  });
});

async function everyPoint(kept: Kept): Promise<Story[]> {
  const { commits, writes } = await playStory(kept, {});
  const reached = numbers(Math.floor(commits * sure));
  return [
    ...reached.flatMap((at) => [{ killAt: `before:${at}` }, { killAt: `after:${at}` }]),
    ...writes.map((_, killAfterWrite) => ({ killAfterWrite })),
  ];
}

interface Story {
  killAt?: string;
  killAfterWrite?: number;
}

/** Plays the story from /run to the answer; whenever the app dies it is started again, as a supervisor would. */
async function playStory({ killer, environment }: Kept, { killAt, killAfterWrite }: Story) {
  const nodeOptions = ["--import", killer];
  const forge = await startForge({ script: fixScript, nodeOptions, environment: await environment() });
  const { github, databasePath } = forge;
  const commitLog = `${databasePath}.commits`;
  const writes: string[] = [];
  let kills = 0;
  let over = false;

  const live = async (more: Record<string, string>): Promise<void> => {
    const app = await forge.start(more);
    redeliverFailed(forge);
    const exited = app.exitCode === null && app.signalCode === null ? once(app, "exit") : Promise.resolve();
    void exited.then(() => {
      if (over) return;
      kills += 1;
      return live({});
    });
  };
  github.afterWrite(({ method, operation }) => {
    // How often the status is drawn depends on the clock; it is one comment all the same.
    if (over || method === "PATCH" || /access_tokens/.test(operation ?? "")) return undefined;
    writes.push(operation ?? method);
    if (writes.length - 1 !== killAfterWrite) return undefined;
    void forge.end("SIGKILL");
    return "drop";
  });

  try {
    await live({ ...(killAt ? { KILL_AT: killAt } : {}), COMMIT_LOG: commitLog });
    const held = await playFix(forge);
    over = true;
    await forge.end("SIGTERM");
    return { held, writes, kills, commits: (await readFile(commitLog, "utf8")).length };
  } finally {
    over = true;
    await forge.close();
  }
}

/** GitHub sends nothing twice by itself: what reached nobody is sent again on demand, as its operators do. */
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

/** Two at a time: as many as the smallest machine has cores. */
async function inPairs<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const next = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all([next(), next()]);
}
