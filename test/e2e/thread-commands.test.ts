import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { alwaysReplies, byTurn, call, inSequence, type Stories, startStories } from "../support/forge-stories.ts";
import { approvalIdIn, forgeRepository } from "../support/forge-world.ts";

let world: Stories;

beforeAll(async () => {
  const commits = forgeRepository.commits.map((commit) => ({
    ...commit,
    files: { ...commit.files, ".github/workers/talker.worker": "---\nname: talker\nmode: chat\n---\nTalk." },
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
  await story.botComment(/Unknown provider nobody/);
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
  await story.botComment(/is waiting for an answer\. Pause it/);
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
  const { promise: released, resolve } = Promise.withResolvers<undefined>();
  const stopHolding = world.github.onRequest(({ path }) => (path.includes("git-upload-pack") ? released : undefined));
  const release = () => {
    stopHolding();
    resolve(undefined);
  };
  onTestFinished(release);
  story.comment("/run fixer");
  await story.botComment(/Opening the repository/);
  story.comment("/stop");
  await story.botComment(/\*\*fixer\*\* is paused/);
  release();

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

test("a worker in chat mode answers each message in a comment, until /exit", async () => {
  const story = world.open({ title: "Let us talk", script: byTurn({ text: "Hello there." }, { text: "I am fine." }) });

  story.comment("/run talker");
  await story.botComment(/💬 \*\*talker\*\*\n[\s\S]*Hello there\./);
  story.comment("How are you?");
  await story.botComment(/💬 \*\*talker\*\*\n[\s\S]*I am fine\./);
  story.comment("/exit");

  await story.botComment(/✅ \*\*talker\*\*\n[\s\S]*ended this run/);
});
