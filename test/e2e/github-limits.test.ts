import { afterEach, describe, expect, test } from "vitest";
import { fixScript, playFix } from "../support/fix-story.ts";
import { call, type Stories, startStories } from "../support/forge-stories.ts";

const open: Stories[] = [];
afterEach(() => Promise.all(open.splice(0).map((stories) => stories.close())));

async function start(options: Parameters<typeof startStories>[0] = {}): Promise<Stories> {
  const stories = await startStories(options);
  open.push(stories);
  await stories.start();
  return stories;
}

describe("one run costs GitHub", () => {
  test("no more than 20 requests to the API, of which most reads are answered with 304", async () => {
    const stories = await start({ environment: { GOLEM_FORGE_STATUS_INTERVAL_MS: "10000" } });
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
});

describe("a GitHub that enforces its rate limits", () => {
  test("is never asked for more than it allows, and every approval request is posted", async () => {
    const limits = { contentPerMinute: 80, contentPerHour: 500, pointsPerMinute: 900 };
    const stories = await start({ limits, environment: { GOLEM_FORGE_WRITE_INTERVAL_MS: "" } });
    const script = () => call("open_pull_request", { title: "A fix", body: "One line." });
    const edit = call("write_file", { path: "fix.txt", content: "fixed\n" });
    const threads = Array.from({ length: 40 }, (_, index) =>
      stories.open({
        title: `Broken in place ${index}.`,
        script: ({ messages }) => (messages.some(({ role }) => role === "tool") ? script() : edit),
      }),
    );

    for (const { comment } of threads) comment("/run fixer");
    await Promise.all(threads.map(({ botComment }) => botComment(/asks for approval/)));

    expect(stories.github.requests.filter(({ status }) => status === 403 || status === 429)).toEqual([]);
  });
});
