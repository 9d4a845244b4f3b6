import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { dumpDatabase, restoreDump } from "#runtime/store/postgres/dump.ts";
import { backUpDatabase, restoreDatabase } from "#runtime/store/sqlite/maintain-database.ts";
import { byTurn, call, type Stories, startStories } from "../support/forge-stories.ts";
import { postgresPrograms } from "../support/postgres-server.ts";
import { testDatabases } from "../support/shared-postgres.ts";

const newDatabase = testDatabases();

let forge: Stories;
const environment = { GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE: "1" };

beforeAll(async () => {
  forge = await startStories({ environment });
  await forge.start();
});
afterAll(() => forge.close());

/** Leaves requests of the app unanswered until the returned function is called. */
function silenceGitHub(): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  const restore = forge.github.onRequest(() => promise.then(() => undefined));
  const answer = () => {
    restore();
    resolve();
  };
  onTestFinished(answer);
  return answer;
}

const outcome = /### ✅ \*\*fixer\*\*\n/;

test("a delivery is acknowledged at once while GitHub does not answer, and carried out when it does", async () => {
  const { comment, botComment, comments } = forge.open({ title: "Silent" });
  const answer = silenceGitHub();

  comment("/run fixer");
  await forge.github.deliveriesSettled();
  // GitHub has not answered until now.
  expect(forge.github.deliveries.at(-1)).toMatchObject({ statusCode: 200 });
  answer();

  await botComment(outcome);
  expect((await comments()).filter((body) => outcome.test(body))).toHaveLength(1);
});

test("an outage of GitHub is never reported as a missing permission", async () => {
  const { comment, botComment, comments } = forge.open({ title: "Failing" });
  let failures = 0;
  const restore = forge.github.onRequest(({ path }) => {
    if (!path.endsWith("/collaborators/maintainer/permission") || failures++ >= 3) return undefined;
    return { status: 502, body: { message: "Server Error" } };
  });

  comment("/run fixer");
  await botComment(outcome);

  restore();
  expect((await comments()).join("\n")).not.toContain("write access");
});

const waitsForItsTurn =
  "a run that waits for another one of its repository says its place in its status comment, and then starts or is cancelled at once";

async function playInTurn({ open }: Stories): Promise<void> {
  const reply = Promise.withResolvers<void>();
  const ask = { calls: [{ name: "ask_user", args: { question: "Which sum?" } }] };
  const answered = open({
    title: "Answered",
    script: ({ messages }) => (messages.some(({ role }) => role === "tool") ? { text: "Done." } : ask),
  });
  answered.comment("/run fixer");
  await answered.botComment(/Which sum\?/);
  const first = open({ title: "First", script: () => reply.promise.then(() => ({ text: "Done." })) });
  first.comment("/run fixer");
  await first.asked;
  const [second, third] = [open({ title: "Second" }), open({ title: "Third" })];

  second.comment("/run fixer");
  try {
    await second.botComment(/Waiting for its turn: position 1 in the queue of this repository/);
    answered.comment("The second.");
    await answered.botComment(/Waiting for its turn: position 2 in the queue of this repository/);
    third.comment("/run fixer");
    await third.botComment(/Waiting for its turn: position 3/);
    third.comment("/cancel");
    await third.botComment(/was cancelled by maintainer/);
  } finally {
    reply.resolve();
  }

  for (const { botComment } of [second, answered]) await botComment(outcome);
  await second.botComment(/\*\*fixer\*\* is done/);
  const comments = await second.comments();
  expect(comments.filter((body) => /\*\*fixer\*\* is (done|working)/.test(body))).toHaveLength(1);
  expect(comments.join()).not.toContain("Waiting for its turn");
}

test(waitsForItsTurn, () => playInTurn(forge));

const postsNothingTwice = "what a run posted after a backup is not posted again by the restored run, which gets as far";

interface Backup {
  /** The environment of the app before and after. */
  before: Record<string, string>;
  after: Record<string, string>;
  backUp(): Promise<void>;
  restore(): Promise<unknown>;
}

async function playRestored({ before, after, backUp, restore }: Backup): Promise<void> {
  const world = await startStories({ environment });
  onTestFinished(() => world.close());
  await world.start(before);
  const script = byTurn(call("ask_user", { question: "Which sum?" }), call("ask_user", { question: "Which file?" }), {
    text: "Done.",
  });
  const { comment, botComment, comments } = world.open({ title: "Restored", script });
  comment("/run fixer");
  await botComment(/Which sum\?/);
  await botComment(/waiting for/);
  await backUp();
  comment("The first.");
  await botComment(/Which file\?/);
  comment("All.");
  await botComment(outcome);
  await world.stop();

  await restore();
  await world.start(after);
  comment("The first.");
  await botComment(/asks\s+> Which file\?/);
  comment("All.");
  await botComment(/is done/);

  const posted = await comments();
  for (const pattern of [/Which sum\?/, /Which file\?/, outcome]) {
    expect(posted.filter((body) => pattern.test(body))).toHaveLength(1);
  }
}

test(postsNothingTwice, async () => {
  const folder = await mkdtemp(join(tmpdir(), "golem-restore-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const [path, file] = [join(folder, "forge.db"), join(folder, "backup")];
  await playRestored({
    before: { DATABASE_URL: `file:${path}` },
    after: { DATABASE_URL: `file:${path}` },
    backUp: () => backUpDatabase(path, file),
    restore: () => restoreDatabase(file, path),
  });
});

describe.skipIf(!postgresPrograms)("over PostgreSQL", () => {
  let shared: Stories;

  beforeAll(async () => {
    shared = await startStories({ environment: { ...environment, DATABASE_URL: await newDatabase() } });
    await shared.start();
  });
  afterAll(() => shared.close());

  test(waitsForItsTurn, () => playInTurn(shared));

  const restoredBy: [string, (file: string, target: string) => Promise<unknown>][] = [
    ["golem db restore", restoreDump],
    ["pg_restore", (file, target) => promisify(execFile)("pg_restore", ["--no-owner", `--dbname=${target}`, file])],
  ];

  test.each(restoredBy)(`${postsNothingTwice}, by %s`, async (_, restore) => {
    const folder = await mkdtemp(join(tmpdir(), "golem-restore-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const file = join(folder, "backup");
    const [source, target] = [await newDatabase(), await newDatabase()];
    await playRestored({
      before: { DATABASE_URL: source },
      after: { DATABASE_URL: target },
      backUp: () => dumpDatabase(source, file),
      restore: () => restore(file, target),
    });
  });
});
