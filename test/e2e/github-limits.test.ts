import { expect, onTestFinished, test } from "vitest";
import { fixScript, playFix } from "../support/fix-story.ts";
import { startStories } from "../support/forge-stories.ts";

test("one run makes at most 20 requests to GitHub's API, and most of its reads are answered with 304", async () => {
  const stories = await startStories({ environment: { GOLEM_FORGE_STATUS_INTERVAL_MS: "10000" } });
  onTestFinished(stories.close);
  await stories.start();
  const play = async () => {
    const story = stories.open({ title: "The total is one too high", body: "Two items give 3.", script: fixScript });
    await playFix(stories, story.issue);
  };
  // The first run of a repository gets the tokens and fetches it.
  await play();
  const before = stories.github.requests.length;

  await play();

  const requests = stories.github.requests.slice(before).filter(({ operation = "" }) => /^[A-Z]+ /.test(operation));
  const reads = requests.filter(({ method }) => method === "GET");
  const counted = requests.map(({ operation, status }) => `${operation} ${status}`).sort();
  expect(counted.length, counted.join("\n")).toBeLessThanOrEqual(20);
  expect(reads.length, counted.join("\n")).toBeLessThanOrEqual(12);
  expect(reads.filter(({ status }) => status === 304).length, counted.join("\n")).toBeGreaterThanOrEqual(3);
});
