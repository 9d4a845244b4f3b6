import { expect, onTestFinished, test } from "vitest";
import { fixScript } from "../support/fix-story.ts";
import { startStories } from "../support/forge-stories.ts";
import { approvalIdIn } from "../support/forge-world.ts";

test("one run makes at most 20 requests to GitHub's API, and most of its reads are answered with 304", async () => {
  // However slow this machine is, the status is posted once, and its next edit is not due.
  const stories = await startStories({ environment: { GOLEM_FORGE_STATUS_INTERVAL_MS: "3600000" } });
  onTestFinished(stories.close);
  await stories.start();
  const play = async () => {
    const { comment, botComment } = stories.open({ title: "The total is one too high", script: fixScript });
    comment("/run fixer");
    comment(`/approve ${approvalIdIn(await botComment(/asks for approval/))}`);
    await botComment(/✅ \*\*fixer\*\*\n/);
    await botComment(/Approved by maintainer/);
    await stories.github.deliveriesSettled();
  };
  // The first run of a repository gets the tokens and fetches it.
  await play();
  const before = stories.github.requests.length;

  await play();

  const requests = stories.github.requests.slice(before).filter(({ operation = "" }) => /^[A-Z]+ /.test(operation));
  const reads = requests.filter(({ method }) => method === "GET");
  const counted = requests.map(({ operation, status }) => `${operation} ${status}`).sort();
  // The last request of a run edits the status.
  expect(counted.length + 1, counted.join("\n")).toBeLessThanOrEqual(20);
  expect(reads.length, counted.join("\n")).toBeLessThanOrEqual(12);
  expect(reads.filter(({ status }) => status === 304).length, counted.join("\n")).toBeGreaterThanOrEqual(3);
});
