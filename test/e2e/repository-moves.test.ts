import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SnapshotComment, SnapshotThread } from "#playground/github/snapshot.ts";
import { byTurn, call, type Script, type Stories, startStories } from "../support/forge-stories.ts";
import { approvalIdIn, forgeRepository } from "../support/forge-world.ts";

let forge: Stories;

beforeAll(async () => {
  forge = await startStories({
    repositories: ["shop", "emptied", "target"].map((name) => ({ ...forgeRepository, name })),
  });
  await forge.start();
});
afterAll(() => forge.close());

let created = 0;

/** Creates a repository for a test that moves it, so that a second attempt finds it as the first one did. Resolves to its name. */
async function createRepository(what: string): Promise<string> {
  created += 1;
  const name = `${what}-${created}`;
  await forge.github.createRepository({ ...forgeRepository, name });
  return name;
}

/** Proposes a change until the pull request is opened. */
const proposes: Script = ({ messages }) => {
  const calls = messages.flatMap(({ tool_calls = [] }) => tool_calls.map((one) => one.function.name));
  if (!calls.includes("edit_file")) {
    return calls.includes("read_file")
      ? call("edit_file", { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" })
      : call("read_file", { path: "src/total.js" });
  }
  const last = JSON.stringify(messages.at(-1)?.content ?? "");
  if (/Opened draft/.test(last)) return { text: "Fixed." };
  return call("open_pull_request", { title: "Count every item once", body: "One too many." });
};

/** Starts a worker that waits for the approval of its pull request. */
async function waitForApproval(title: string, repository: string) {
  const story = forge.open({ title, script: proposes, repository });
  story.comment("/run fixer");
  return { ...story, asked: await story.botComment(/asks for approval/) };
}

/** Starts a worker that waits for an answer. */
async function waitForAnswer(title: string, repository: string) {
  const ask = call("ask_user", { question: "Red or blue?" });
  const story = forge.open({ title, script: byTurn(ask, ask, { text: "Painted." }), repository });
  story.comment("/run fixer");
  return { ...story, asked: await story.botComment(/Red or blue\?/) };
}

/** The first result of `find` in a thread of any repository. */
function inThread<T>(
  repository: string,
  number: number,
  find: (thread: SnapshotThread) => T | undefined,
  what: string,
) {
  return forge.github
    .until(
      (snapshot) => {
        const thread = snapshot[repository]?.issues.find((issue) => issue.number === number);
        return thread && find(thread);
      },
      { what: `${what} in ${repository}#${number}` },
    )
    .catch((error: Error) => {
      throw new Error(`${error.message}\nThe app printed:\n${forge.printed()}`);
    });
}

const botCommentIn = (repository: string, number: number, pattern: RegExp) =>
  inThread(
    repository,
    number,
    ({ comments }): SnapshotComment | undefined =>
      comments.find(({ author, body }) => author === forge.github.botLogin && pattern.test(body)),
    `a comment like ${pattern}`,
  );
const commentIn = (repository: string, number: number, text: string) =>
  forge.github.as("maintainer", repository).comment(number, text);

describe.concurrent("a waiting run", () => {
  test("a waiting run follows its repository to a new name, and a new repository of the old name cannot reach it", async () => {
    const name = await createRepository("renamed");
    const [before, after] = [`playground/${name}`, `playground/${name}-anew`];
    const { issue, asked } = await waitForApproval("Renamed", before);
    const { number } = issue;

    forge.github.accountChanges.rename(forge.github.repository(before), `${name}-anew`);
    await forge.github.createRepository({ ...forgeRepository, name });
    forge.github.as("visitor", before).openIssue({ title: "An impostor" });
    commentIn(before, number, `/approve ${approvalIdIn(asked)}`);
    await botCommentIn(before, number, /Request \S+ not found/);
    commentIn(after, number, `/approve ${approvalIdIn(asked)}`);
    await botCommentIn(after, number, /Fixed\./);

    const snapshot = await forge.github.snapshot();
    expect(snapshot[after]?.pulls.map(({ title }) => title)).toEqual(["Count every item once"]);
    expect(Object.keys(snapshot[before]?.branches ?? {})).toEqual(["main"]);
    expect(snapshot[before]?.issues[0]?.comments).toHaveLength(2);
  });

  test("a waiting run is stopped when its repository is transferred, and its requests are withdrawn", async () => {
    const name = await createRepository("transferred");
    const { issue, asked } = await waitForApproval("Transferred", `playground/${name}`);
    const { number } = issue;
    const there = `elsewhere/${name}`;

    forge.github.accountChanges.transfer(forge.github.repository(`playground/${name}`), "elsewhere");
    await botCommentIn(
      there,
      number,
      /is paused[\s\S]*(transferred from playground\/transferred-\d+ to elsewhere|removed from this repository)/,
    );
    commentIn(there, number, `/approve ${approvalIdIn(asked)}`);
    await botCommentIn(there, number, /is no longer needed/);
    commentIn(there, number, "/resume");
    const second = await inThread(
      there,
      number,
      ({ comments }) => comments.find((one) => /asks for approval/.test(one.body) && one.id !== asked.id),
      "another request",
    );
    commentIn(there, number, `/approve ${approvalIdIn(second)}`);

    await botCommentIn(there, number, /Fixed\./);
    expect((await forge.github.snapshot())[there]?.pulls).toHaveLength(1);
  });

  test("a waiting run finds the default branch by its new name", async () => {
    const repository = `playground/${await createRepository("branched")}`;
    const { botComment, comment } = await waitForApproval("Branched", repository);

    await forge.github.accountChanges.renameDefaultBranch(forge.github.repository(repository), "trunk");
    comment("/approve");

    await botComment(/Fixed\./);
    const [pull] = (await forge.github.snapshot())[repository]?.pulls ?? [];
    expect(pull?.pull?.base).toBe("trunk");
  });

  test.each(["deleted", "transferred"])(
    "a waiting run ends when its issue is %s, and a comment in the transferred issue says so",
    async (what) => {
      const { issue } = await waitForAnswer(`Gone: ${what}`, "playground/emptied");
      const { accountChanges, requests } = forge.github;
      const [from, to] = [forge.github.repository("playground/emptied"), forge.github.repository("playground/target")];

      const number =
        what === "deleted"
          ? accountChanges.deleteIssue(from, issue.number)
          : accountChanges.transferIssue(from, issue.number, to);

      // The app tries to post the result of the run where the issue was, and nowhere else.
      const ended = what === "deleted" ? 410 : 301;
      const statuses = () =>
        requests.filter(({ path }) => path.includes(`/issues/${issue.number}/comments`)).map(({ status }) => status);
      await expect.poll(statuses).toContain(ended);
      if (number === undefined) return;
      const { body } = await botCommentIn("playground/target", number, /was transferred/);
      expect(body).toMatch(/The run of fixer ended when this issue was transferred from playground\/emptied/);
      const moved = (await forge.github.snapshot())["playground/target"]?.issues.find((one) => one.number === number);
      expect(moved?.comments.filter(({ body }) => /cancelled|is done/.test(body)) ?? []).toEqual([]);
    },
  );

  test("a run whose issue is transferred says so in its pull request, which the transferred issue names", async () => {
    const story = await waitForApproval("Transferred with a pull request", "playground/emptied");
    story.comment("/approve");
    await story.botComment(/Fixed\./);
    const [from, to] = [forge.github.repository("playground/emptied"), forge.github.repository("playground/target")];
    const pull = (await forge.github.snapshot())["playground/emptied"]?.pulls.at(-1)?.number ?? 0;

    const number = forge.github.accountChanges.transferIssue(from, story.issue.number, to);

    const { body } = await botCommentIn("playground/target", number, /was transferred/);
    expect(body).toMatch(new RegExp(`playground/emptied#\\S*${pull}\\.`));
    const said = () =>
      forge.github.until((snapshot) =>
        snapshot["playground/emptied"]?.pulls
          .find((one) => one.number === pull)
          ?.comments.find(({ body }) => /was cancelled by/.test(body)),
      );
    expect((await said()).body).toMatch(/@\S*maintainer transferred issue #\S*\d+\./);
  });

  test("/update merges the default branch of the pull request by its new name", async ({ expect }) => {
    const repository = `playground/${await createRepository("updated")}`;
    const story = await waitForApproval("Updated", repository);
    story.comment("/approve");
    await story.botComment(/Fixed\./);

    await forge.github.accountChanges.renameDefaultBranch(forge.github.repository(repository), "trunk");
    story.comment("/update");

    await expect
      .poll(() => JSON.stringify(story.requests.at(-1)?.messages), { timeout: 60_000 })
      .toContain("Merge the branch trunk into your pull request");
  });
});

test.each([
  [
    "uninstalled",
    /This app was uninstalled from playground/,
    () => forge.github.accountChanges.uninstall(),
    () => forge.github.accountChanges.install(),
  ],
  [
    "suspended",
    /This app was suspended by playground/,
    () => forge.github.accountChanges.suspend(),
    () => forge.github.accountChanges.unsuspend(),
  ],
  [
    "removed from the repository",
    /This app was removed from this repository/,
    () => forge.github.accountChanges.removeRepository(forge.github.repository("playground/shop")),
    () => forge.github.accountChanges.addRepository(forge.github.repository("playground/shop")),
  ],
])(
  "when the app is %s, a run stops without errors, and continues when the app is back",
  async (what, reason, leave, comeBack) => {
    const { comment, botComment, until, asked } = await waitForAnswer(`An app that is ${what}`, "playground/shop");
    const before = forge.printed().length;

    leave();
    await forge.github.deliveriesSettled();
    comeBack();
    expect((await botComment(/is paused/)).body).toMatch(reason);
    comment("/resume");
    await until(
      ({ comments }) =>
        comments.some(({ id, body }) => /asks[\s\S]*Red or blue\?/.test(body) && id !== asked.id) || undefined,
      "the question again",
    );
    comment("Blue.");

    await botComment(/Painted\./);
    expect(forge.printed().slice(before)).not.toMatch(/"level":[56]0/);
  },
);

test("every request was one that GitHub's API has", () => {
  expect(forge.github.unknownRequests()).toEqual([]);
});
