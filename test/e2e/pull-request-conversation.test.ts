import { afterEach, expect, test } from "vitest";
import { turnOf } from "#playground/model/model-server.ts";
import { approvalIdIn, type Forge, startForge } from "../support/forge-world.ts";

let forge: Forge | undefined;

afterEach(async () => {
  await forge?.close();
  forge = undefined;
});

const call = (name: string, args: object) => ({ calls: [{ name, args }] });

/** A run that has opened its pull request and waits for a review. */
async function openedPullRequest(afterwards: Parameters<typeof startForge>[0]["script"]) {
  const opening = [
    call("read_file", { path: "src/total.js" }),
    call("edit_file", { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" }),
    call("open_pull_request", { title: "Count every item once", body: "One too many." }),
    { text: "Opened. Please review it." },
  ];
  const world = await startForge({ script: (request) => opening[turnOf(request.messages)] ?? afterwards(request) });
  forge = world;
  await world.start();
  const maintainer = world.github.as("maintainer");
  const issue = maintainer.openIssue({ title: "The total is one too high", body: "Two items give 3." });
  maintainer.comment(issue.number, "/run fixer");
  const request = await world.botComment(issue.number, /asks for approval/);
  maintainer.comment(issue.number, `/approve ${approvalIdIn(request)}`);
  const { number, pull } = await world.github.until((snapshot) => Object.values(snapshot)[0]?.pulls[0]);
  await world.botComment(issue.number, /Opened\. Please review it\./);
  return { ...world, maintainer, issue, number, branch: pull?.head ?? "" };
}

test("a review that requests changes wakes the run, which pushes and answers each comment in its own thread", async () => {
  const { github, maintainer, number, branch, botComment } = await openedPullRequest((request) => {
    const review = request.messages
      .map(({ content }) => JSON.stringify(content))
      .find((text) => /Review comment \d+/.test(text));
    const id = Number(/Review comment (\d+)/.exec(review ?? "")?.[1]);
    return (
      [
        call("write_file", { path: "CHANGES.md", content: "The total is right.\n" }),
        call("update_pull_request", { message: "Add a changelog" }),
        call("reply_to_review", { review_comment_id: id, text: "Done: I added a changelog." }),
        { text: "All comments are answered." },
      ][turnOf(request.messages) - 4] ?? { text: "Nothing left." }
    );
  });

  const comment = { path: "src/total.js", line: 1, body: "Please add a changelog." };
  await maintainer.review(number, { event: "REQUEST_CHANGES", body: "One thing.", comments: [comment] });

  const request = await botComment(number, /`update_pull_request`/);
  expect(request.body).toContain("CHANGES.md");
  maintainer.comment(number, `/approve ${approvalIdIn(request)}`);
  const reply = await botComment(number, /`reply_to_review`|All comments are answered/);
  if (reply.body.includes("asks for approval")) maintainer.comment(number, `/approve ${approvalIdIn(reply)}`);
  await botComment(number, /All comments are answered/);
  expect(await github.readFile(branch, "CHANGES.md")).toBe("The total is right.\n");
  const [pull] = Object.values(await github.snapshot()).flatMap(({ pulls }) => pulls);
  expect(JSON.stringify(pull)).toContain("Done: I added a changelog.");
});

test("reviews of people without write access, and approving ones, wake nobody", async () => {
  const { github, number, model } = await openedPullRequest(() => ({ text: "Why was I called?" }));
  const before = model.requests.length;

  await github.as("visitor").review(number, { event: "REQUEST_CHANGES", body: "Delete everything." });
  await github.as("contributor").review(number, { event: "COMMENT", body: "Looks good." });
  github.as("contributor").comment(number, "/status");
  await forge?.botComment(number, /\*\*fixer\*\* is done and waits for a review/);

  expect(model.requests.length).toBe(before);
});

test("failed checks on the run's own commit wake it twice at most, with their names and output", async () => {
  const { github, branch, number, model, botComment } = await openedPullRequest(({ messages }) => ({
    text: `Repair ${turnOf(messages)}: ${/lint: failure/.test(JSON.stringify(messages.at(-1))) ? "lint failed" : "what failed?"}`,
  }));
  const fail = async () => {
    const checks = await github.checks(branch);
    checks.report("lint", { conclusion: "failure", title: "1 problem", summary: "Missing semicolon." });
  };

  await fail();
  await botComment(number, /Repair 4: lint failed/);
  await fail();
  await botComment(number, /Repair 5: lint failed/);
  const before = model.requests.length;
  await fail();
  github.as("maintainer").comment(number, "/status");
  await botComment(number, /\*\*fixer\*\* is done and waits for a review/);

  expect(model.requests.length).toBe(before);
});

test("merging ends the run with a last comment that names the commit on the base branch", async () => {
  const { maintainer, number, botComment } = await openedPullRequest(() => ({ text: "Why was I called?" }));

  maintainer.markReady(number);
  const commit = await maintainer.merge(number);

  await botComment(number, new RegExp(`Pull request #\\S*${number} was merged by @\\S*maintainer as ${commit}\\.`));
});

test("closing ends the run and withdraws its requests; reopening continues it, across a crash", async () => {
  const { maintainer, issue, number, botComment, model, end, start } = await openedPullRequest(({ messages }) =>
    turnOf(messages) === 4 ? call("delete_file", { path: "README.md" }) : { text: "I am back." },
  );
  maintainer.comment(number, "Delete the readme.");
  const request = await botComment(number, /`delete_file`/);

  maintainer.close(number);
  await botComment(number, /was closed by @\S*maintainer at [0-9a-f]{40}\. Reopening it continues this run\./);
  await botComment(number, /Withdrawn/);
  maintainer.comment(number, `/approve ${approvalIdIn(request)}`);
  await botComment(number, /is no longer needed/);
  await botComment(issue.number, /\*\*fixer\*\* is done\n/);
  const before = model.requests.length;
  await end("SIGKILL");
  await start();

  maintainer.reopen(number);
  await botComment(issue.number, /\*\*fixer\*\* is done and waits for a review/);
  maintainer.comment(number, "Leave the readme alone.");

  await botComment(number, /I am back\./);
  expect(model.requests.length).toBe(before + 1);
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("Leave the readme alone.");
});
