import { afterEach, expect, test } from "vitest";
import { type ActionWorld, type ActionWorldOptions, startActionWorld } from "../support/action-world.ts";
import { fixScript } from "../support/fix-story.ts";

let world: ActionWorld;

afterEach(() => world.close());

async function start(options: Partial<ActionWorldOptions> = {}): Promise<ActionWorld> {
  world = await startActionWorld({ script: fixScript, ...options });
  return world;
}

test("a workflow that uses a repository instead of the npm package runs what its action.yml says, with the env of the step", async () => {
  const { github, runner, botComment } = await start({
    from: { uses: "acme/golem-forge@v1" },
    script: () => ({ text: "It adds one." }),
  });

  const issue = github.as("maintainer").openIssue({ title: "What does total do?", body: "/run explainer" });

  await botComment(issue.number, /It adds one\./);
  await runner.idle();
  expect(runner.finished).toMatchObject([{ exitCode: 0 }]);
});

test("without the model's key, the job says which secret is missing", async () => {
  const { github, runner } = await start({ environment: { OPENAI_API_KEY: "" } });

  github.as("maintainer").openIssue({ title: "Anything", body: "/run fixer" });

  await expect.poll(() => runner.finished.length).toBe(1);
  expect(runner.finished[0]).toMatchObject({
    exitCode: 2,
    output: expect.stringContaining("No model API key is set"),
  });
});
