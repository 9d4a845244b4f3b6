import { expect, onTestFinished, test } from "vitest";
import { call, startStories } from "../support/forge-stories.ts";

test("a GitHub that enforces its rate limits is never asked for more than it allows, and every approval request is posted", async () => {
  const limits = { contentPerMinute: 80, contentPerHour: 500, pointsPerMinute: 900 };
  const stories = await startStories({ limits, environment: { GOLEM_FORGE_WRITE_INTERVAL_MS: "" } });
  onTestFinished(stories.close);
  await stories.start();
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
