import { afterAll, beforeAll, expect, test } from "vitest";
import { type ChatRequest, type ModelReply, turnOf } from "#playground/model/model-server.ts";
import { call, type Stories, type Story, startStories } from "../support/forge-stories.ts";
import { approvalIdIn } from "../support/forge-world.ts";

let world: Stories;

beforeAll(async () => {
  world = await startStories();
  await world.start();
});
afterAll(() => world.close());

const total = "export const total = (items) => items.length";

/** A run whose pull request changes one line of a file of its own, and then makes these replies. */
async function proposed(title: string, ...replies: (ModelReply | ((request: ChatRequest) => ModelReply))[]) {
  const path = `src/${title.toLowerCase().replaceAll(" ", "-")}.js`;
  await world.github.push({
    branch: "main",
    message: `Add ${path}`,
    author: "contributor",
    at: new Date(),
    files: { [path]: `${total} + 1;\n` },
  });
  const steps = [
    call("read_file", { path }),
    call("edit_file", { path, old_text: "items.length + 1", new_text: "items.length" }),
    call("open_pull_request", { title, body: "One too many." }),
    { text: "Opened." },
    ...replies,
  ];
  const script = (request: ChatRequest) => {
    const step = steps[turnOf(request.messages)] ?? { text: "Done." };
    return typeof step === "function" ? step(request) : step;
  };
  const story = world.open({ title, script });
  story.comment("/run fixer");
  story.comment(`/approve ${approvalIdIn(await story.botComment(/asks for approval/))}`);
  const { body } = await story.botComment(/is done and is waiting for review/);
  const number = Number(/\/pull\/(\d+)\)/.exec(body)?.[1]);
  const snapshot = await world.github.snapshot();
  const pull = Object.values(snapshot)
    .flatMap(({ pulls }) => pulls)
    .find((one) => one.number === number);
  return { story, path, number, branch: pull?.pull?.head ?? "", approvals: approvalsOf(story) };
}

/** Approves the story's requests, each once. */
function approvalsOf(story: Story) {
  return {
    approve: async (tool: string, text = /./) => {
      const asks = new RegExp(`asks for approval[\\s\\S]*Tool \`${tool}\``);
      const request = await story.until(
        ({ comments }) => comments.find(({ body }) => asks.test(body) && text.test(body)),
        `a request for ${tool}`,
      );
      story.comment(`/approve ${approvalIdIn(request)}`);
      return request;
    },
  };
}

function push(
  message: string,
  files: Record<string, string>,
  { branch = "main", author = "contributor" }: { branch?: string; author?: string } = {},
) {
  return world.github.push({ branch, message, author, at: new Date(), files });
}

test("a base branch that moves into conflict continues the run, whose push is a merge of both", async () => {
  const updated = call("update_pull_request", { message: "Merge main" });
  const { story, path, number, branch, approvals } = await proposed(
    "Base moves",
    call("git_pull", { with_conflicts: true }),
    updated,
    call("read_file", { path: "src/base-moves.js" }),
    call("write_file", { path: "src/base-moves.js", content: `${total}; // counted\n` }),
    updated,
    { text: "The conflict is resolved." },
  );

  await world.github.push({
    branch: "main",
    message: "Say what it is",
    author: "contributor",
    at: new Date(),
    files: { [path]: `${total} + 1; // counted\n` },
  });
  await approvals.approve("update_pull_request");

  await story.botComment(/The conflict is resolved\./);
  const messages = JSON.stringify(story.requests.at(-1)?.messages);
  expect(messages).toContain(`#${number} has conflicts with main.`);
  expect(messages).toContain(`A merge has left conflict markers in these files: ${path}.`);
  expect(await world.github.readFile(branch, path)).toBe(`${total}; // counted\n`);
  world.github.as("maintainer").markReady(number);
  await world.github.as("maintainer").merge(number);
  expect(await world.github.readFile("main", path)).toBe(`${total}; // counted\n`);
});

test("a pull request that has conflicts when it is opened continues its run", async () => {
  const path = "src/early-conflict.js";
  await push("Add it", { [path]: `${total} + 1;\n` });
  const steps = [
    call("read_file", { path }),
    call("edit_file", { path, old_text: "items.length + 1", new_text: "items.length" }),
    call("open_pull_request", { title: "Early conflict", body: "One too many." }),
    { text: "Opened." },
  ];
  const script = ({ messages }: ChatRequest) => steps[turnOf(messages)] ?? { text: "I see the conflict." };
  const story = world.open({ title: "Early conflict", script });
  story.comment("/run fixer");
  const request = await story.botComment(/asks for approval/);
  await push("Change the same line", { [path]: `${total} + 2;\n` });

  story.comment(`/approve ${approvalIdIn(request)}`);

  await story.botComment(/I see the conflict\./);
  expect(JSON.stringify(story.requests.at(-1)?.messages)).toMatch(/Your pull request #\d+ has conflicts with main\./);
});

test("what a person pushed to the branch is taken in before the next push, and never overwritten", async () => {
  const path = "src/people-push.js";
  const { story, branch, approvals } = await proposed(
    "People push",
    call("write_file", { path: "NOTES.md", content: "One is enough.\n" }),
    // The run changes its own line again, which does not conflict with its earlier push.
    call("write_file", { path, content: `${total}; // all of them\n` }),
    call("update_pull_request", { message: "Explain" }),
    ({ messages }) => {
      const [, branch] = /call git_merge with the branch (golem\/[\w-]+)/.exec(JSON.stringify(messages)) ?? [];
      return call("git_merge", { branch });
    },
    call("update_pull_request", { message: "Explain both" }),
    { text: "Both are there." },
  );
  await push("Add a comment", { "src/people.js": "// by a person\n" }, { branch, author: "maintainer" });
  const theirs = await world.github.readFile(branch, "src/people.js");

  story.comment("Explain it in NOTES.md");
  await approvals.approve("update_pull_request", /Explain$/m);
  const merge = await approvals.approve("git_merge");
  const update = await approvals.approve("update_pull_request", /Explain both/);

  await story.botComment(/Both are there\./);
  expect(merge.body).toContain("src/people.js");
  expect(merge.body).not.toContain("// all of them");
  expect(update.body).toContain("NOTES.md");
  expect(update.body).toContain(`-${total};`);
  expect(update.body).not.toContain("src/people.js");
  expect(await world.github.readFile(branch, "src/people.js")).toBe(theirs);
  expect(await world.github.readFile(branch, "NOTES.md")).toBe("One is enough.\n");
  expect(await world.github.readFile(branch, path)).toBe(`${total}; // all of them\n`);
});

test("the approval of a merge lists what it adds to both branches, and a merged change cannot be dropped", async () => {
  const { story, path, branch, approvals } = await proposed(
    "Merge much",
    call("git_pull", {}),
    call("delete_file", { path: "docs/dropped.md" }),
    call("update_pull_request", { message: "Merge without a file" }),
    call("write_file", { path: "docs/dropped.md", content: "Keep me.\n" }),
    call("update_pull_request", { message: "Merge all of it" }),
    { text: "Merged." },
    call("write_file", { path: "NOTES.md", content: "Later.\n" }),
    call("git_pull", {}),
    call("update_pull_request", { message: "Add notes" }),
    { text: "Noted." },
  );
  await push("Much", { "docs/one.md": "One.\n", "docs/two.md": "Two.\n", "docs/dropped.md": "Keep me.\n" });

  story.comment("/update");
  await approvals.approve("delete_file");
  const merge = await approvals.approve("update_pull_request", /Merge all of it/);
  await story.botComment(/Merged\./);
  await push("More", { "docs/three.md": "Three.\n" });
  story.comment("Add notes.");
  const notes = await approvals.approve("update_pull_request", /Add notes/);
  await story.botComment(/Noted\./);

  const results = JSON.stringify(story.requests.at(-1)?.messages);
  expect(results).toContain("docs/dropped.md lacks a change of the merged commit");
  expect(merge.body).toMatch(/main at [0-9a-f]{10}; files that are the same there are not listed/);
  expect(merge.body).not.toContain("docs/one.md");
  expect(notes.body).toContain("NOTES.md");
  expect(notes.body).not.toMatch(/docs\/|src\//);
  for (const file of ["docs/one.md", "docs/dropped.md", "docs/three.md"])
    expect(await world.github.readFile(branch, file)).toBe(await world.github.readFile("main", file));
  expect(await world.github.readFile(branch, path)).toBe(`${total};\n`);
});

test("/update asks the worker to merge the base, and /undo takes its last push back without rewriting history", async () => {
  const { story, path, branch, approvals } = await proposed(
    "Undo it",
    call("write_file", { path: "src/undo-it.js", content: `${total}; // wrong\n` }),
    call("update_pull_request", { message: "Make it wrong" }),
    { text: "Pushed." },
  );
  story.comment("/update");
  await approvals.approve("update_pull_request");
  await story.botComment(/Pushed\./);
  expect(JSON.stringify(story.requests.at(-1)?.messages)).toContain("Merge the branch main into your pull request");
  expect(await world.github.readFile(branch, path)).toBe(`${total}; // wrong\n`);

  story.comment("/undo");
  const asked = await story.botComment(/`undo_push` needs confirmation|`undo_push` needs your confirmation/);
  expect(asked.body).toContain("// wrong");
  expect(await world.github.readFile(branch, path)).toBe(`${total}; // wrong\n`);
  story.comment(/^\/tool undo_push .*$/m.exec(asked.body)?.[0] ?? "");

  await story.botComment(/Undid [0-9a-f]{7} with [0-9a-f]{7} on golem\//);
  expect(await world.github.readFile(branch, path)).toBe(`${total};\n`);
});
