import { afterAll, beforeAll, expect, test } from "vitest";
import { alwaysReplies, byTurn, call, inSequence, type Stories, startStories } from "../support/forge-stories.ts";
import { approvalIdIn, forgeRepository } from "../support/forge-world.ts";

let world: Stories;

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
  world = await startStories({ repositories: [{ ...forgeRepository, commits }] });
  await world.start();
});
afterAll(() => world.close());

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
  await story.botComment(/Nothing was started in this thread yet/);

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
  await story.botComment(/The next calls use `openai:other`/);
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
  await story.botComment(/\*\*fixer\*\* is stopped/);

  story.comment("/clear");
  await story.botComment(/The conversation is cleared/);
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
  const { body: status } = await story.botComment(/is done and waits for a review/);
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
  await story.botComment(/\*\*fixer\*\* is stopped/);
  stopHolding();
  release(undefined);

  story.comment("/resume");

  await story.botComment(/✅ \*\*fixer\*\*\n[\s\S]*All good\./);
});

test("a run at its cost limit waits across a crash, and /approve +$1 by someone who may approve continues it", async () => {
  const story = world.open({ title: "Expensive", script: byTurn(edit, { text: "It was worth it." }) });
  story.comment("/run thrifty");
  await story.botComment(/\*\*thrifty\*\* has used up its cost limit\n\nIt has cost \\?\$0\.\d+ of/);
  await world.end("SIGKILL");
  await world.start();

  story.comment("/approve +$1", "visitor");
  await story.botComment(/you need write access/);
  story.comment("/approve +$100");
  await story.botComment(/policy allows at most \$20\.00 per run/);
  expect(story.requests).toHaveLength(1);
  story.comment("/approve +$1");

  await story.botComment(/The cost limit is now \\?\$1\.00\. The run continues\./);
  await story.botComment(/✅ \*\*thrifty\*\*\n[\s\S]*It was worth it\./);
  const later = world.open({ title: "Also costly", script: alwaysReplies("Cheap.") });
  later.comment("/run thrifty");
  await later.botComment(/✅ \*\*thrifty\*\*\n/);
  later.comment("/cost");
  await later.botComment(/\| thrifty, run `\w+` \| \\?\$0\.\d+ of \\?\$0\.001 \| \\?\$0\.\d+ \|/);
});

test("a worker in chat mode answers each message in a comment, until /exit", async () => {
  const story = world.open({ title: "Let us talk", script: byTurn({ text: "Hello there." }, { text: "I am fine." }) });

  story.comment("/run talker");
  await story.botComment(/💬 \*\*talker\*\*\n[\s\S]*Hello there\./);
  story.comment("How are you?");
  await story.botComment(/💬 \*\*talker\*\*\n[\s\S]*I am fine\./);
  story.comment("/exit");

  await story.botComment(/✅ \*\*talker\*\*\n[\s\S]*ended this run/);
});
