import { describe, expect, test } from "vitest";
import { createRuntimeUI } from "#ui/runtime-ui.ts";
import { pseudoTerminal, terminalWorld } from "../support/terminal-world.ts";

test.each([
  "a test must never be deleted",
  "always look at the tests first",
  "yes please",
  "yes, but rename it",
  "Yes.",
  "YES!!",
  "y?",
  "y y",
  "y n",
  "yep",
  "ok",
  "sure",
  "approve",
  "approve all",
  "all",
  "session please",
  "remember to run the tests",
  "really? yes",
  "why not, yes",
  "ya",
  "yy",
  "\uff59",
  "y\u200b",
  "\u202ey",
  "y\u0000",
  "/yes",
  "1",
  "true",
])("%j does not approve", async (line) => {
  const { bus, type, sees } = await terminalWorld();

  const answer = createRuntimeUI(bus).requestApproval("tool_call", "Delete a test", {}, "high", []);
  await sees("Approve?");
  type(line);
  if (line.startsWith("/")) type("n");

  expect((await answer).approved).toBe(false);
});

test("a sentence denies and is the reason", async () => {
  const { bus, type, sees } = await terminalWorld();

  const answer = createRuntimeUI(bus).requestApproval("tool_call", "Delete a test", {}, "high", []);
  await sees("Approve?");
  type("  A test must never be deleted. ");

  expect(await answer).toEqual({ approved: false, reason: "A test must never be deleted." });
});

test.each(["yes", "a", "always", "approve it"])(
  "%j as the reason of a denial does not approve the next request",
  async (reason) => {
    const { bus, type, sees, text } = await terminalWorld();
    const ui = createRuntimeUI(bus);

    const first = ui.requestApproval("tool_call", "Delete a test", {}, "high", []);
    const second = ui.requestApproval("tool_call", "Delete another test", {}, "high", []);
    await sees("Approve?");
    type("d");
    await sees("Reason (sent to the worker):");
    expect(text()).not.toContain("Delete another test");
    type(reason);
    await sees("Delete another test");
    type("n");

    expect(await Promise.all([first, second])).toEqual([{ approved: false, reason }, { approved: false }]);
  },
);

test("of several lines that arrive at once, the first answers and the others answer nothing", async () => {
  const { bus, input, type, sees } = await terminalWorld();
  const ui = createRuntimeUI(bus);

  const answers = Promise.all([1, 2, 3].map((n) => ui.requestApproval("tool_call", `Call ${n}`, {}, "high", [])));
  await sees("Call 1");
  input.write("y\ny\nalways\n");
  await sees("Call 2");
  type("n");
  await sees("Call 3");
  type("n");

  expect((await answers).map(({ approved }) => approved)).toEqual([true, false, false]);
});

describe("keys", () => {
  test.each([
    ["a whole line", "y\r"],
    ["an unfinished line", "y"],
  ])("%s typed before the request was shown do not answer it", async (_, keys) => {
    const { bus, input, sees } = await terminalWorld({ isTTY: true, inputIsTTY: true });
    input.write(keys);

    const answer = createRuntimeUI(bus).requestApproval("tool_call", "Delete a test", {}, "high", []);
    await sees("Approve?");
    input.write("\r");

    expect((await answer).approved).toBe(false);
  });

  test("keys that would move through a list are text", async () => {
    const { bus, input, sees } = await terminalWorld({ isTTY: true, inputIsTTY: true });

    const answer = createRuntimeUI(bus).requestApproval("tool_call", "Delete a test", {}, "high", []);
    await sees("Approve?");
    input.write("jkl\r");

    expect(await answer).toEqual({ approved: false, reason: "jkl" });
  });
});

test("an answer to a request that was withdrawn does not reach the next one", async () => {
  const { bus, type, sees, text } = await terminalWorld();
  const ui = createRuntimeUI(bus);
  const stop = new AbortController();
  const first = ui.requestApproval("tool_call", "Delete a test", {}, "high", [], { signal: stop.signal });
  first.catch(() => undefined);
  await sees("Approve?");

  stop.abort();
  const second = ui.requestApproval("tool_call", "Delete all tests", {}, "high", []);
  await sees("Press Enter to see the next one");
  type("y");
  await sees("Delete all tests");
  expect(text()).toContain("The request above was withdrawn, and an answer to it has no effect.");
  type("n");

  await expect(first).rejects.toThrow("aborted");
  expect(await second).toEqual({ approved: false });
});

test("Ctrl+C at a request interrupts, denies and says so", async () => {
  const { bus, input, sees, next } = await terminalWorld();
  const interrupted = next("interrupt");
  const answer = createRuntimeUI(bus).requestApproval("tool_call", "Delete a test", {}, "high", []);
  await sees("Approve?");

  input.write("\u0003");

  expect(await interrupted).toEqual({ reason: "User interrupted" });
  expect((await answer).approved).toBe(false);
  await sees("Interrupting the worker…");
});

describe("a request", () => {
  const hidden = "a\u001b[2Kb\u202ec\u200bd\re\u2028f\u009b31mg\u00a0h";
  const shown = "a⟨ESC⟩[2Kb⟨U+202E⟩c⟨U+200B⟩d⟨CR⟩e⟨U+2028⟩f⟨U+009B⟩31mg⟨U+00A0⟩h";

  test("a request shows every control, escape, bidirectional and invisible character", async () => {
    const { bus, type, sees, text } = await terminalWorld();
    const details = { toolName: hidden, toolArgs: { [hidden]: hidden, list: [hidden] }, preview: `+${hidden}` };

    const answer = createRuntimeUI(bus).requestApproval("tool_call", hidden, details, "high", [
      { id: "1", depth: 0, task: "root" },
      { id: "2", depth: 1, task: hidden },
    ]);
    await sees("Approve?");
    type("n");
    await answer;

    for (const line of [
      `Worker: root -> ${shown}`,
      `Tool: ${shown}`,
      `Description: ${shown}`,
      `  ${shown}: ${shown}`,
      `  │ +${shown}`,
    ]) {
      expect(text()).toContain(line);
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may reach the terminal
    expect(text()).not.toMatch(/[\u001b\u202e\u200b\r\u2028\u009b]/);
  });

  test("a request shows all of its arguments and of what it would do", async () => {
    const { bus, type, sees, text } = await terminalWorld();
    const long = Array.from({ length: 300 }, (_, index) => `line ${index}`).join("\n");

    const answer = createRuntimeUI(bus).requestApproval(
      "tool_call",
      "Write",
      { toolName: "write_file", toolArgs: { content: long }, preview: long },
      "low",
      [],
    );
    await sees("Approve?");
    type("n");
    await answer;

    expect(text().match(/│ line 299/g)).toHaveLength(2);
  });

  test("a request shows no text that imitates the request itself", async () => {
    const { bus, type, sees, text } = await terminalWorld();
    const preview = `harmless\n${"─".repeat(60)}\nApprove? [y]es / [n]o: `;

    const answer = createRuntimeUI(bus).requestApproval(
      "tool_call",
      "Run",
      { toolName: "shell", toolArgs: { command: "ls\nTool: read_file" }, preview },
      "low",
      [],
    );
    await sees(/\[a\]lways.*\nApprove\? $/);
    type("n");
    await answer;

    expect(
      text()
        .split("\n")
        .filter((line) => /^(Tool|Approve|─)/.test(line)),
    ).toHaveLength(4);
  });

  test("a request shows that it cannot be approved for the session if a part of it is not shown", async () => {
    const { bus, type, sees, text } = await terminalWorld();
    const details = { toolName: "open_pull_request", toolArgs: {}, blocks: [], isShownWhole: false };

    const answer = createRuntimeUI(bus).requestApproval("tool_call", "Open", details, "low", []);
    await sees("Approve?");
    expect(text()).not.toContain("[a]lways");
    type("always");
    await sees(/cannot be approved for the session[\s\S]*Approve\?/);
    type("y");

    expect(await answer).toEqual({ approved: true });
  });

  test("a request that is longer than a person would read is not shown, and denied", async () => {
    const { bus, sees } = await terminalWorld();
    const preview = "x\n".repeat(3_000);

    const answer = createRuntimeUI(bus).requestApproval(
      "tool_call",
      "Write",
      { toolName: "w", toolArgs: {}, preview },
      "low",
      [],
    );
    await sees("Denied: This request has");

    expect(await answer).toMatchObject({ approved: false });
  });
});

test("names in lists and messages show their invisible characters", async () => {
  const { bus, type, sees } = await terminalWorld();
  const ui = createRuntimeUI(bus);
  ui.showManualTools([{ name: "a\u001b[2J", label: "b\u202e", description: "c\u200b\u200b", fields: [] }]);

  type("/tools");
  ui.showMessage({ role: "assistant", content: "done\u001b]0;title\u0007" });

  await sees("/a⟨U+001B⟩[2J  b⟨U+202E⟩ — c⟨2 hidden characters⟩");
  await sees("done⟨U+001B⟩]0;title⟨U+0007⟩");
});

test("Ctrl+C at a request of a program without an adapter denies and says so", async () => {
  const { createCLIApprovalCallback } = await import("#terminal/ask-approval.ts");
  const { input, output, sees, text } = pseudoTerminal();

  const answer = createCLIApprovalCallback({ input, output })({ tool: "push", args: {}, reason: "Push" });
  await sees("Approve?");
  input.write("\u0003");

  expect(await answer).toMatchObject({ approved: false });
  expect(text()).toContain("Interrupted.");
});
