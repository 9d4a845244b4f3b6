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

if (!availability.available) test.skip(`needs an OS sandbox: ${availability.reason}`, () => undefined);

test.skipIf(!availability.available)(
  "the fixer runs the failing test before and after its fix, and the pull request reports both",
  async () => {
    const { results, body, answer, approvals } = await fixTheSample();

    expect(results).toHaveLength(2);
    expect(results[0]).toMatch(
      /^node --test: 2 passed, 1 failed\. Exit code 1 .*\n✗ a full last page is not followed by an empty one\n/,
    );
    expect(results[1]).toMatch(/^node --test: 3 passed, 0 failed\. Exit code 0 /);
    for (const report of [body, answer]) {
      expect(report).toContain(
        "before: `node --test: 2 passed, 1 failed` – *a full last page is not followed by an empty one*",
      );
      expect(report).toContain("after: `node --test: 3 passed, 0 failed`");
    }
    expect(body).toMatch(
      /### What was run[\s\S]*exit code 1, 2 passed, 1 failed[\s\S]*exit code 0, 3 passed, 0 failed[\s\S]*passed in a later run:\n\n- `a full last page is not followed by an empty one`/,
    );
    expect(approvals).toEqual(["open_pull_request"]);
  },
);

test("without an OS sandbox everything else works, and the reason is reported once", async () => {
  const why = "no OS sandbox (it is switched off by this deployment)";

  const { results, body, answer, approvals, printed } = await fixTheSample({
    GOLEM_FORGE_SANDBOX: "off",
    LOG_LEVEL: "info",
  });

  expect(results).toHaveLength(1);
  expect(results[0]).toContain(`unavailable: ${why}`);
  for (const report of [body, answer]) {
    expect(report.split(why)).toHaveLength(2);
    expect(report).toContain(`The tests were **not run** here: ${why}. Run them with \`npm test\`.`);
  }
  expect(approvals).toEqual(["open_pull_request"]);
  expect(printed.split("\n").filter((line) => line.includes("no OS sandbox"))).toHaveLength(1);
});

/** The fixer works on the sample issue, with the app in its own process, and the maintainer approves its requests. */
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
  const results = runs.map(({ id }) => messageText(messages.find(({ tool_call_id }) => tool_call_id === id)));
  return { results, body: pull.body, answer: answer.body, approvals, printed: printed() };
}

async function sandboxAvailability() {
  const executors = createExecutors();
  try {
    return await executors.availability("os");
  } finally {
    await executors.close();
  }
}
