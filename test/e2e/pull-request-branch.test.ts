import { afterAll, beforeAll, expect, test } from "vitest";
import type { ModelReply } from "#playground/model/model-server.ts";
import { byTurn, call, type Stories, type Story, startStories } from "../support/forge-stories.ts";
import { approvalIdIn } from "../support/forge-world.ts";

let world: Stories;

beforeAll(async () => {
  world = await startStories();
  await world.start();
});
afterAll(() => world.close());

const total = "export const total = (items) => items.length";

/** A run whose pull request changes one line of a file of its own, and then makes these replies. */
async function proposed(title: string, ...replies: ModelReply[]) {
  const path = `src/${title.toLowerCase().replaceAll(" ", "-")}.js`;
  await world.github.push({
    branch: "main",
    message: `Add ${path}`,
    author: "contributor",
    at: new Date(),
    files: { [path]: `${total} + 1;\n` },
  });
  const script = byTurn(
    call("read_file", { path }),
    call("edit_file", { path, old_text: "items.length + 1", new_text: "items.length" }),
    call("open_pull_request", { title, body: "One too many." }),
    { text: "Opened." },
    ...replies,
  );
  const story = world.open({ title, script });
  story.comment("/run fixer");
  story.comment(`/approve ${approvalIdIn(await story.botComment(/asks for approval/))}`);
  const { body } = await story.botComment(/is done and waits for a review/);
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
    approve: async (tool: string) => {
      const request = await story.botComment(new RegExp(`asks for approval[\\s\\S]*Tool \`${tool}\``));
      story.comment(`/approve ${approvalIdIn(request)}`);
      return request;
    },
  };
}

test("a base branch that moves into conflict continues the run, whose push is a merge of both", async () => {
  const updated = call("update_pull_request", { message: "Merge main" });
  const { story, path, number, branch, approvals } = await proposed(
    "Base moves",
    call("git_pull", { with_conflicts: true }),
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
  expect(JSON.stringify(story.requests.at(-1)?.messages)).toContain(`#${number} has conflicts with main.`);
  expect(await world.github.readFile(branch, path)).toBe(`${total}; // counted\n`);
  world.github.as("maintainer").markReady(number);
  await world.github.as("maintainer").merge(number);
  expect(await world.github.readFile("main", path)).toBe(`${total}; // counted\n`);
});

test("what a person pushed to the branch is taken in before the next push, and never overwritten", async () => {
  const push = call("update_pull_request", { message: "Explain" });
  const { story, path, branch, approvals } = await proposed(
    "People push",
    call("write_file", { path: "NOTES.md", content: "One is enough.\n" }),
    push,
    { text: "Somebody pushed." },
  );
  await world.github.push({
    branch,
    message: "Add a comment",
    author: "maintainer",
    at: new Date(),
    files: { "src/people.js": "// by a person\n" },
  });

  story.comment("Explain it in NOTES.md");
  await approvals.approve("update_pull_request");
  await story.botComment(/Somebody pushed\./);
  expect(JSON.stringify(story.requests.at(-1)?.messages)).toContain(`call git_merge with the branch ${branch}`);
  expect(await world.github.readFile(branch, "src/people.js")).toBe("// by a person\n");
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
  const asked = await story.botComment(/`undo_push` needs confirmation|`undo_push` asks before it runs/);
  expect(asked.body).toContain("// wrong");
  expect(await world.github.readFile(branch, path)).toBe(`${total}; // wrong\n`);
  story.comment(/^\/tool undo_push .*$/m.exec(asked.body)?.[0] ?? "");

  await story.botComment(/Undid [0-9a-f]{7} with [0-9a-f]{7} on golem\//);
  expect(await world.github.readFile(branch, path)).toBe(`${total};\n`);
});
