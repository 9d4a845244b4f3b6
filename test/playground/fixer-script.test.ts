import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { readSampleIssue, readSampleRepository } from "#playground/demo/sample-repository.ts";
import { fixerScript } from "#playground/model/fixer-script.ts";
import type { ChatRequest } from "#playground/model/model-server.ts";
import { reviseScript } from "#playground/model/revise-script.ts";

type Messages = ChatRequest["messages"];

const everyTool = [
  ...["write_tasks", "list_files", "grep", "read_file", "run_tests", "edit_file", "git_diff", "open_pull_request"],
];

/** Plays the model against these tool results until it makes no more calls. Returns all calls and the last text. */
async function converse({
  offered = everyTool,
  answer = (_name: string, _args: Record<string, unknown>): string => "done",
  asked,
}: {
  offered?: string[];
  answer?: (name: string, args: Record<string, unknown>) => string;
  asked?: string;
}) {
  const issue = await readSampleIssue();
  const messages: Messages = [{ role: "user", content: asked ?? `${issue.title}\n\n${issue.body}` }];
  const tools = offered.map((name) => ({ function: { name } }));
  const calls: { name: string; args: Record<string, unknown> }[] = [];
  for (let turn = 1; turn <= 20; turn++) {
    const reply = fixerScript({ model: "scripted", messages, tools, stream: false });
    if (!("calls" in reply) || !reply.calls)
      return { calls, text: "text" in reply ? (reply.text ?? "") : "", messages };

    const made = reply.calls.map(({ name, args }, index) => ({ id: `${turn}-${index}`, name, args: args as never }));
    messages.push({
      role: "assistant",
      content: reply.text ?? "",
      tool_calls: made.map(({ id, name, args }) => ({ id, function: { name, arguments: JSON.stringify(args) } })),
    });
    for (const { id, name, args } of made) {
      calls.push({ name, args });
      messages.push({ role: "tool", tool_call_id: id, content: answer(name, args) });
    }
  }
  throw new Error("The script does not end");
}

const opened = "Opened draft pull request #2: No empty page\nhttp://127.0.0.1:1/playground/paginate/pull/2";

test("it says first that it is a scripted model and why", async () => {
  const { messages } = await converse({ answer: () => opened });

  expect(messages[1]?.content).toMatch(/^I am a scripted model: no API key is configured/);
});

test("it reads, plans, edits, reviews, proposes a pull request and summarizes the result", async () => {
  const { calls, text } = await converse({ answer: () => opened });

  expect(new Set(calls.map(({ name }) => name))).toEqual(new Set(everyTool));
  expect(text).toMatch(/I opened http:\/\/127\.0\.0\.1:1\/playground\/paginate\/pull\/2/);
});

describe("running the tests", () => {
  const red =
    "node --test: 4 passed, 2 failed. Exit code 1 after 0.30 s. Because.\n✗ first\n    error\n✗ second\n    error";
  const green = "node --test: 6 passed, 0 failed. Exit code 0 after 0.30 s. Because.";

  /** Plays the issue with these results of run_tests; the last one is repeated. */
  async function withTests(...answers: string[]) {
    const remaining = [...answers];
    const result = await converse({
      answer: (name) =>
        name === "run_tests" ? ((remaining.length > 1 ? remaining.shift() : remaining[0]) ?? "") : opened,
    });
    const { calls, messages } = result;
    const texts = messages.filter(({ role }) => role === "assistant").map(({ content }) => String(content));
    return {
      ...result,
      order: calls
        .map(({ name }) => name)
        .filter((name) => ["run_tests", "edit_file", "open_pull_request"].includes(name)),
      texts: texts.join("\n"),
      body: String(calls.find(({ name }) => name === "open_pull_request")?.args.body),
      plan: JSON.stringify(calls.findLast(({ name }) => name === "write_tasks")?.args),
    };
  }

  test("the tests are run before and after the edit, and the pull request reports both results", async () => {
    const { order, texts, body, text } = await withTests(red, green);

    expect(order).toEqual(["run_tests", "edit_file", "run_tests", "open_pull_request"]);
    expect(texts).toContain(
      "The tests fail as the issue describes: `node --test: 4 passed, 2 failed` – *first*, *second*.",
    );
    expect(texts).toContain("The tests pass now: `node --test: 6 passed, 0 failed`.");
    for (const report of [body, text]) {
      expect(report).toContain("- before: `node --test: 4 passed, 2 failed` – *first*, *second*");
      expect(report).toContain("- after: `node --test: 6 passed, 0 failed`");
    }
  });

  test.each([
    [
      "unavailable: no OS sandbox (it needs Linux, and this is darwin)",
      "no OS sandbox (it needs Linux, and this is darwin)",
    ],
    [JSON.stringify({ error: "unavailable: no OS sandbox" }), "no OS sandbox"],
    ["No supported test runner was found in the repository.", "No supported test runner was found in the repository"],
    [
      "node --test: 2 passed, 0 failed. Killed after 60 s: it did not end within its timeout.",
      "node --test: 2 passed, 0 failed. Killed after 60 s: it did not end within its timeout",
    ],
  ])("running the tests is tried once where it is impossible, and the reason is reported: %s", async (answer, why) => {
    const { order, texts, body, text, plan } = await withTests(answer);

    expect(order).toEqual(["run_tests", "edit_file", "open_pull_request"]);
    expect(texts).toContain(`The tests cannot run here: ${why}. I'll continue without them`);
    for (const report of [body, text]) expect(report).toContain(`The tests were **not run** here: ${why}.`);
    expect(plan).not.toMatch(/Run the tests/);
  });

  test("the run ends when tests still fail after the edit", async () => {
    const { order, text } = await withTests(red);

    expect(order).toEqual(["run_tests", "edit_file", "run_tests"]);
    expect(text).toMatch(/still fail after my change .*\*first\*.* so I won't open a pull request/);
  });
});

test("its edit makes the failing test of the sample pass", async () => {
  const folder = await mkdtemp(join(tmpdir(), "golem-forge-sample-"));
  const { commits = [] } = await readSampleRepository();
  for (const [path, content] of commits.flatMap(({ files }) => Object.entries(files))) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), String(content ?? ""));
  }
  const runTests = () =>
    promisify(execFile)(process.execPath, ["--test"], { cwd: folder, env: { PATH: process.env.PATH } }).then(
      () => "green",
      () => "red",
    );
  const { calls } = await converse({ answer: () => opened });
  const { old_text: buggy, new_text: fixed } = calls.find(({ name }) => name === "edit_file")?.args ?? {};
  const source = String(commits.find(({ files }) => "src/paginate.js" in files)?.files["src/paginate.js"]);

  const before = await runTests();
  await writeFile(join(folder, "src/paginate.js"), source.replace(String(buggy), String(fixed)));
  const after = await runTests();
  await rm(folder, { recursive: true });

  expect(source.split(String(buggy))).toHaveLength(2);
  expect([before, after]).toEqual(["red", "green"]);
});

test("the reason for a denial is passed on in a second proposal, and a second denial ends the run", async () => {
  const denied =
    "@maintainer denied this call for this reason: mention the shop. It was not made. Do not try the same call again.";

  const { calls, text } = await converse({ answer: (name) => (name === "open_pull_request" ? denied : "done") });

  const proposals = calls.filter(({ name }) => name === "open_pull_request");
  expect(proposals).toHaveLength(2);
  expect(proposals[1]?.args.body).toContain("A reviewer said: mention the shop");
  expect(text).toMatch(/Nothing was pushed/);
});

test("a denial without a reason ends the run", async () => {
  const denied = "@maintainer denied this call without giving a reason. It was not made.";

  const { calls, text } = await converse({ answer: (name) => (name === "open_pull_request" ? denied : "done") });

  expect(calls.filter(({ name }) => name === "open_pull_request")).toHaveLength(1);
  expect(text).toMatch(/was denied. Nothing was pushed/);
});

test("it calls only the tools it is offered", async () => {
  const offered = ["read_file", "edit_file", "open_pull_request"];

  const { calls } = await converse({ offered, answer: () => opened });

  expect(new Set(calls.map(({ name }) => name))).toEqual(new Set(offered));
});

test("it stops when the file differs from the sample", async () => {
  const { calls, text } = await converse({ answer: (name) => (name === "edit_file" ? "Error: not found" : "done") });

  expect(calls.some(({ name }) => name === "open_pull_request")).toBe(false);
  expect(text).toContain("differs from the sample");
});

test.each([
  ["another issue", { asked: "Translate the readme into Welsh" }],
  ["a worker that cannot edit", { offered: ["read_file", "grep"] }],
  ["a worker that cannot open a pull request", { offered: everyTool.filter((name) => name !== "open_pull_request") }],
])("for %s it explains what it is and how to use a real model", async (_, situation) => {
  const { calls, text } = await converse(situation);

  expect(calls).toEqual([]);
  expect(text).toMatch(/^I am a scripted model: no API key is configured[\s\S]*ANTHROPIC_API_KEY/);
});

test("a call that somebody interrupted is made again", async () => {
  const stopped = '{"type":"interrupted","message":"@maintainer paused the run before this call finished."}';
  let proposals = 0;

  const { calls, text } = await converse({
    answer: (name) => (name === "open_pull_request" && proposals++ === 0 ? stopped : opened),
  });

  expect(calls.filter(({ name }) => name === "open_pull_request")).toHaveLength(2);
  expect(calls.filter(({ name }) => name === "edit_file")).toHaveLength(1);
  expect(text).toContain("I opened");
});

describe("after the pull request was opened", () => {
  /** Plays the turns that follow this message, and returns the calls and texts of those turns. */
  function revise(message: string, answer: (name: string) => string = () => "done") {
    const messages: Messages = [{ role: "user", content: message }];
    const tools = [...everyTool, "write_file", "update_pull_request", "reply_to_review"];
    const said: string[] = [];
    const calls: { name: string; args: unknown }[] = [];
    for (let turn = 0; turn < 10; turn++) {
      const reply = reviseScript(messages, new Set(tools));
      if (!reply || !("text" in reply)) throw new Error("The script has nothing to do.");
      said.push(reply.text ?? "");
      if (!("calls" in reply) || !reply.calls) return { said, calls };
      const made = reply.calls.map(({ name, args }, index) => ({ id: `${turn}-${index}`, name, args }));
      messages.push({
        role: "assistant",
        content: "",
        tool_calls: made.map(({ id, name, args }) => ({ id, function: { name, arguments: JSON.stringify(args) } })),
      });
      for (const { id, name, args } of made) {
        calls.push({ name, args });
        messages.push({ role: "tool", tool_call_id: id, content: answer(name) });
      }
    }
    throw new Error("The script does not end");
  }
  const review = (body: string) =>
    `@maintainer requests changes on pull request #2.\n\nReview comment 7 on src/paginate.js: ${body}`;

  test("it adds the changelog that CI requires", () => {
    const { calls } = revise("These checks failed on abc1234.\nchangelog: failure");

    expect(calls.map(({ name }) => name)).toEqual(["write_file", "update_pull_request"]);
  });

  test("it changes what a review asks for, pushes, and answers each comment with the commit", () => {
    const { calls } = revise(review("Please explain this in the comment."), (name) =>
      name === "update_pull_request" ? "Updated pull request #2 at abc1234" : "done",
    );

    expect(calls.map(({ name }) => name)).toEqual(["edit_file", "run_tests", "update_pull_request", "reply_to_review"]);
    expect(calls.at(-1)?.args).toEqual({ review_comment_id: 7, text: "The comment now says this.", done: true });
  });

  test("it says that it is scripted where it cannot do what is asked for", () => {
    const { calls, said } = revise(review("Please make it faster."));

    expect(calls).toMatchObject([{ name: "reply_to_review", args: { text: expect.stringContaining("scripted") } }]);
    expect(said.at(-1)).toContain("without changing anything");
    expect(revise("These checks failed on abc1234.\nlint: failure").said).toEqual([
      expect.stringContaining("scripted"),
    ]);
  });

  test("it stops when its push is denied", () => {
    const denied = "@maintainer denied this call for this reason: not now. It was not made.";
    const { calls, said } = revise(review("Please explain this in the comment."), (name) =>
      name === "update_pull_request" ? denied : "done",
    );

    expect(calls.at(-1)?.name).toBe("update_pull_request");
    expect(said.at(-1)).toBe("The push was denied: not now. The change remains in this run.");
  });
});
