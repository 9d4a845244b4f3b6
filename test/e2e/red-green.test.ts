import { afterEach, expect, test } from "vitest";
import { createExecutors } from "#executors/create-executors.ts";
import { readSampleIssue, readSampleRepository } from "#playground/demo/sample-repository.ts";
import { fixerScript } from "#playground/model/fixer-script.ts";
import { messageText } from "../support/forge-stories.ts";
import { approvalIdIn, type Forge, startForge } from "../support/forge-world.ts";

const availability = await sandboxAvailability();
let forge: Forge | undefined;

afterEach(async () => {
  await forge?.close();
  forge = undefined;
});

if (!availability.available)
  test.skip(`tests of a repository are not run here: ${availability.reason}`, () => undefined);

test.skipIf(!availability.available)(
  "a failing test is seen red, fixed, seen green, and the pull request says so",
  async () => {
    const { tested, body, answer, approvals } = await fixTheSample();

    expect(tested).toHaveLength(2);
    expect(tested[0]).toMatch(
      /^node --test: 2 passed, 1 failed\. Exit code 1 .*\n✗ no empty page follows a page that is full\n/,
    );
    expect(tested[1]).toMatch(/^node --test: 3 passed, 0 failed\. Exit code 0 /);
    for (const report of [body, answer]) {
      expect(report).toContain(
        "before: `node --test: 2 passed, 1 failed` – *no empty page follows a page that is full*",
      );
      expect(report).toContain("after: `node --test: 3 passed, 0 failed`");
    }
    expect(approvals).toEqual(["open_pull_request"]);
  },
);

test("where no sandbox stands everything else works, and what is missing is said once", async () => {
  const why = "no OS sandbox (it is switched off by this deployment)";

  const { tested, body, answer, approvals, printed } = await fixTheSample({
    GOLEM_FORGE_SANDBOX: "off",
    LOG_LEVEL: "info",
  });

  expect(tested).toHaveLength(1);
  expect(tested[0]).toContain(`unavailable: ${why}`);
  for (const report of [body, answer]) {
    expect(report.split(why)).toHaveLength(2);
    expect(report).toContain(`The tests were **not run** here: ${why}. \`npm test\` runs them.`);
  }
  expect(approvals).toEqual(["open_pull_request"]);
  expect(printed.split("\n").filter((line) => line.includes("no OS sandbox"))).toHaveLength(1);
});

/** The fixer works the sample issue with the app in its own process, and the maintainer approves what it asks. */
async function fixTheSample(environment: Record<string, string> = { GOLEM_FORGE_SANDBOX: "auto" }) {
  forge = await startForge({ script: fixerScript, repositories: [await readSampleRepository()], environment });
  await forge.start();
  const { github, model, botComment, inThread, printed } = forge;
  const issue = github.as("visitor").openIssue(await readSampleIssue());
  github.as("maintainer").comment(issue.number, "/run fixer");

  const asked = await botComment(issue.number, /asks for approval/);
  github.as("maintainer").comment(issue.number, `/approve ${approvalIdIn(asked)}`);

  const answer = await botComment(issue.number, /^### ✅ \*\*fixer\*\*\s+I opened http/);
  const pull = await github.until((snapshot) => Object.values(snapshot)[0]?.pulls[0]);
  const approvals = await inThread(
    issue.number,
    ({ comments }) => comments.flatMap(({ body }) => /^`(\w+)` of \*\*fixer\*\*, approval/m.exec(body)?.[1] ?? []),
    "the decided approvals",
  );
  expect(await github.readFile(pull.pull?.head ?? "", "src/paginate.js")).toContain("Math.ceil(total / perPage)");
  expect(github.unknownRequests()).toEqual([]);

  const { messages = [] } = model.requests.at(-1) ?? {};
  const runs = messages
    .flatMap((message) => message.tool_calls ?? [])
    .filter((call) => call.function.name === "run_tests");
  const tested = runs.map(({ id }) => messageText(messages.find(({ tool_call_id }) => tool_call_id === id)));
  return { tested, body: pull.body, answer: answer.body, approvals, printed: printed() };
}

async function sandboxAvailability() {
  const executors = createExecutors();
  try {
    return await executors.availability("os");
  } finally {
    await executors.close();
  }
}
