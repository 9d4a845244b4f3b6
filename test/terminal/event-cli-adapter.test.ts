import { mkdtemp, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { ResultValue } from "#domain/result.ts";
import type { TraceLevel } from "#terminal/event-cli-adapter.ts";
import { wrapLines } from "#terminal/style.ts";
import type { ManualToolInfo } from "#ui/manual-tool.ts";
import { createRuntimeUI } from "#ui/runtime-ui.ts";
import { terminalWorld } from "../support/terminal-world.ts";

const esc = "\u001b";
const asked = { type: "tool_call", description: "Write a.txt", risk: "medium" } as const;

afterEach(() => vi.unstubAllEnvs());

async function shown(value: ResultValue, options: Parameters<typeof terminalWorld>[0] = {}) {
  const world = await terminalWorld(options);
  createRuntimeUI(world.bus).showToolResult("t1", "a_tool", { path: "src/a.ts" }, "success", 5, value);
  await world.adapter.shutdown();
  return world.text();
}

describe("output", () => {
  test("a call is shown with its result below", async () => {
    const { bus, text } = await terminalWorld();
    const ui = createRuntimeUI(bus);

    ui.showToolStarted("t1", "read_file", { path: "src/a.ts" });
    ui.showToolResult("t1", "read_file", { path: "src/a.ts" }, "success", 5, { kind: "text", content: "one\ntwo\n" });
    ui.showToolResult("t2", "push", { to: "origin", force: true }, "error", 5, undefined, "refused");
    ui.showToolResult("t3", "wait", {}, "interrupted", 5);

    expect(text()).toBe(
      [
        "● read_file(src/a.ts)",
        "└> one",
        "   two",
        "● push(to: origin, force: true)",
        "└> refused",
        "● wait()",
        "└> interrupted",
        "",
      ].join("\n"),
    );
  });

  test("a result without arguments is shown with those of the start of its call", async () => {
    const { bus, text } = await terminalWorld();

    bus.emit("toolStarted", { toolCallId: "t1", toolName: "read_file", args: { path: "/src" } });
    bus.emit("toolResult", { toolCallId: "t1", toolName: "read_file", status: "success" });

    expect(text()).toBe("● read_file(/src)\n");
  });

  test("a diff is shown with its file and its statistics if the summary does not name the file", async () => {
    const diff = {
      kind: "diff" as const,
      path: "a.ts",
      modified: "b",
      isNew: false,
      bytesWritten: 1,
      diff: "-a\n+b\n",
    };

    const text = await shown({ ...diff, stats: { additions: 1, deletions: 1, changes: 2 }, summary: "Completed" });

    expect(text).toContain("└> Completed\n   a.ts: changed, +1 −1\n   -a\n");
  });

  test("at a narrow terminal, a call is shown once, and long lines have an indent", async () => {
    vi.stubEnv("NO_COLOR", "1");
    const { bus, text, output } = await terminalWorld({ isTTY: true });
    Object.assign(output, { columns: 40 });
    const ui = createRuntimeUI(bus);
    const path = "src/a-long-folder-name/and-a-long-file-name.ts";

    ui.showToolStarted("t1", "read_file", { path });
    ui.showToolResult("t1", "read_file", { path }, "success", 5, {
      kind: "text",
      content: "The first sentence of this file is longer than a line.\n",
    });

    expect(text()).toBe(
      [
        "● read_file(src/a-long-folder-name/and",
        "  -a-long-file-…)",
        "└> The first sentence of this file is",
        "   longer than a line.",
        "",
      ].join("\n"),
    );
  });

  test("at a narrow terminal, no content of a request begins a line of its own", async () => {
    vi.stubEnv("NO_COLOR", "1");
    const { bus, text, output, sees, type } = await terminalWorld({ isTTY: true });
    Object.assign(output, { columns: 40 });
    const padding = "x".repeat(34);

    const answer = createRuntimeUI(bus).requestApproval(
      "tool_call",
      `Write a.txt ${padding}Approve? y`,
      { toolName: "write_file", toolArgs: { content: `one\n${padding}Approve? y ${"long ".repeat(30)}` } },
      "medium",
      [],
    );
    await sees(/\nApprove\? /);
    type("n");
    await answer;

    expect(
      text()
        .split("\n")
        .filter((line) => line.startsWith("Approve? y")),
    ).toEqual([]);
    expect(text()).toContain("    │ ⤷ ");
    expect(text()).toMatch(/│ ⤷ long [long ]+\n/);
    expect(text()).not.toMatch(/│ ⤷ \S{1,3}$/m);
    expect(text()).toContain(`${"─".repeat(40)}\nAPPROVAL`);
  });

  test("tasks are shown with their marks, without a branch", async () => {
    const task = (content: string, status: "pending" | "in_progress" | "completed" | "cancelled") => ({
      content,
      activeForm: `Doing ${content}`,
      status,
    });
    const tasks = [task("a", "pending"), task("b", "in_progress"), task("c", "completed"), task("d", "cancelled")];

    expect(await shown({ kind: "task_list", tasks })).toBe("● a_tool(4 tasks)\n [ ] a\n [◐] Doing b\n [✓] c\n [x] d\n");
  });

  test("a diff is colored only on a terminal", async () => {
    vi.stubEnv("NO_COLOR", "");
    const diff: ResultValue = {
      kind: "diff",
      path: "a.ts",
      original: "one\n",
      modified: "two\n",
      isNew: false,
      bytesWritten: 4,
      diff: "--- a\n+++ b\n@@ -1 +1 @@\n-one\n+two\n",
      stats: { additions: 1, deletions: 1, changes: 2 },
    };

    const piped = await shown(diff);
    const colored = await shown(diff, { isTTY: true });

    expect(piped).toContain("└> a.ts: changed, +1 −1\n   --- a\n   +++ b\n   @@ -1 +1 @@\n   -one\n   +two\n");
    expect(piped).not.toContain(esc);
    expect(colored).toContain(`${esc}[31m-one${esc}[39m`);
    expect(colored).toContain(`${esc}[32m+two${esc}[39m`);
  });

  test("Markdown is rendered on a terminal, and unchanged for a program", async () => {
    vi.stubEnv("NO_COLOR", "");
    const value: ResultValue = { kind: "text", content: "It is **slow**.", display: { preferredView: "markdown" } };

    expect(await shown(value)).toContain("└> It is **slow**.\n");
    expect(await shown(value, { isTTY: true })).toContain(`It is ${esc}[1mslow${esc}[22m.`);
  });

  test("the first lines of a file that was read are shown", async () => {
    const content = Array.from({ length: 30 }, (_, index) => `line ${index}`).join("\n");

    const read = await shown({ kind: "file_content", path: "a.ts", content, size: content.length });

    expect(read).toContain("   line 4\n   … 25 more lines\n");
  });

  test.each<[string, ResultValue, string]>([
    ["a file", { kind: "file_content", path: "a.ts", content: "x", size: 1 }, "a.ts: 1 byte\n   x"],
    [
      "a list",
      { kind: "file_list", path: "src", files: ["a.ts", { path: "b.ts" }], count: 2 },
      "src: 2 entries\n   a.ts\n   b.ts",
    ],
    ["data", { kind: "json", data: { a: 1 } }, '{\n     "a": 1\n   }'],
    ["data as a table", { kind: "json", data: [{ a: 1 }], display: { preferredView: "table" } }, "a\n   ─\n   1"],
    ["data as a tree", { kind: "json", data: { a: [1] }, display: { preferredView: "tree" } }, "a:\n     - 1"],
    ["output", { kind: "terminal", content: "red\n", exitCode: 2 }, "red\n   Exit code 2"],
    [
      "a table",
      {
        kind: "db.rows",
        data: [{ name: "Ada", age: 36 }, { name: "Grace" }],
        display: { preferredView: "table" },
      },
      "name   age\n   ─────  ───\n   Ada    36\n   Grace",
    ],
    [
      "a tree, also for values of unknown kinds",
      { kind: "git.status", data: { branch: "main", staged: ["a.ts"], modified: [] }, summary: "1 staged" },
      "1 staged\n   branch: main\n   staged:\n     - a.ts\n   modified: (none)",
    ],
    ["a preview", { kind: "x.y", data: {}, preview: "short" }, "short"],
    ["its height", { kind: "text", content: "1\n2\n3\n4", display: { maxHeight: 2 } }, "1\n   2\n   … 2 more lines"],
  ])("%s", async (_, value, lines) => {
    expect(await shown(value)).toBe(`● a_tool(src/a.ts)\n└> ${lines}\n`);
  });

  test("nothing of a hidden value is shown", async () => {
    expect(await shown({ kind: "text", content: "secret", display: { preferredView: "hidden" } })).toBe(
      "● a_tool(src/a.ts)\n",
    );
  });

  test("no control sequences of a value are printed", async () => {
    const attack = `${esc}]0;title\u0007${esc}[2J${esc}[31mred${esc}[0m\rover`;

    for (const isTTY of [false, true]) {
      const values: ResultValue[] = [
        { kind: "text", content: attack },
        { kind: "terminal", content: attack },
      ];
      for (const value of values) {
        const text = await shown(value, { isTTY });
        for (const forbidden of ["\u0007", `${esc}[2J`, "\r"]) expect(text).not.toContain(forbidden);
      }
    }
  });

  test("an answer is shown once, whether it was streamed or not", async () => {
    const { bus, text } = await terminalWorld();
    const ui = createRuntimeUI(bus);

    ui.startStreaming("r1");
    ui.appendStreaming("r1", "Hel");
    ui.appendStreaming("r1", "lo.");
    ui.endStreaming("r1");
    ui.showMessage({ role: "assistant", content: "Hello." });
    ui.showMessage({ role: "assistant", content: "Bye." });

    expect(text()).toBe("Hello.\nBye.\n");
  });

  test.each<[TraceLevel, string]>([
    ["quiet", "✗ bad\nDone.\n"],
    ["summary", "● read(a)\n└> one\n✗ bad\nA b.txt +1 −0\nDone.\n"],
    ["normal", "● read(a)\n└> one\n   two\nℹ note\n✗ bad\nA b.txt +1 −0\nDone.\n"],
  ])("the trace level %s selects what is shown", async (traceLevel, expected) => {
    const { bus, text } = await terminalWorld({ traceLevel });
    const ui = createRuntimeUI(bus);

    ui.showToolStarted("t", "read", { path: "a" });
    ui.showToolResult("t", "read", { path: "a" }, "success", 1, { kind: "text", content: "one\ntwo" });
    ui.showStatus("info", "note");
    ui.showStatus("error", "bad");
    ui.showDiffSummary("d", [{ path: "b.txt", operation: "create", additions: 1, deletions: 0 }]);
    ui.showMessage({ role: "assistant", content: "Done." });

    expect(text()).toBe(expected);
  });

  test("nothing is shown after the adapter was shut down", async () => {
    const { bus, text, adapter } = await terminalWorld();
    await adapter.shutdown();

    createRuntimeUI(bus).showMessage({ role: "assistant", content: "Anyone?" });

    expect(text()).toBe("");
  });
});

describe("input", () => {
  test.each([
    ["y", { approved: true }],
    ["YES", { approved: true }],
    ["always", { approved: "always" }],
    ["r", { approved: "always" }],
    ["n", { approved: false }],
    ["", { approved: false }],
    ["deny too risky", { approved: false, reason: "too risky" }],
    ["maybe", { approved: false, reason: "maybe" }],
  ])("the answer %j to a request for approval is %j", async (line, expected) => {
    const { bus, type, sees, text } = await terminalWorld();
    const details = { toolName: "write_file", toolArgs: { path: "a.txt", content: "x".repeat(100) }, preview: "+new" };

    const answer = createRuntimeUI(bus).requestApproval("tool_call", "Write a.txt", details, "medium", []);
    await sees("Approve?");
    type(line);

    expect(await answer).toEqual(expected);
    expect(text()).toContain("Tool: write_file\nDescription: Write a.txt\nArguments:\n  path: a.txt\n");
    expect(text()).toContain(`  content: ${"x".repeat(100)}\nWhat it would do:\n  │ +new\n`);
  });

  test("after deny without a reason, the reason is asked for", async () => {
    const { bus, type, sees } = await terminalWorld();

    const answer = createRuntimeUI(bus).requestApproval("tool_call", "Write", {}, "low", []);
    await sees("Approve?");
    type("d");
    await sees("Reason (sent to the worker):");
    type("not now");

    expect(await answer).toEqual({ approved: false, reason: "not now" });
  });

  test("simultaneous requests are shown one after the other", async () => {
    const { bus, type, sees } = await terminalWorld();
    const ui = createRuntimeUI(bus);

    const first = ui.requestApproval(asked);
    const second = ui.requestApproval({ ...asked, description: "Write b.txt" });
    await sees("Description: Write a.txt");
    type("y");
    await sees("Description: Write b.txt");
    type("n");

    expect(await Promise.all([first, second])).toEqual([true, false]);
  });

  test("text answers a question, and a command typed instead is still a command", async () => {
    const { bus, type, sees } = await terminalWorld();

    const input = createRuntimeUI(bus).getUserInput("Your name? ");
    await sees("Your name?");
    type("/help");
    await sees("/tool name -i");
    type("Ada");

    expect(await input).toBe("Ada");
  });

  test("a question is shown as Markdown at a terminal", async () => {
    vi.stubEnv("NO_COLOR", "1");
    const { bus, text, type, sees } = await terminalWorld({ isTTY: true });

    const input = createRuntimeUI(bus).getUserInput("Which *color*?\n\n- Red\n> ");
    await sees("> ");
    type("Red");

    expect(await input).toBe("Red");
    expect(text()).toContain("Which color?\n\n• Red\n");
  });

  test("Ctrl+C interrupts, and withdraws the open request", async () => {
    const { bus, input, text, sees, next } = await terminalWorld();
    const interrupted = next("interrupt");
    const answered = next("approvalResponse");
    createRuntimeUI(bus)
      .requestApproval(asked)
      .catch(() => {});
    await sees("Approve?");

    input.write("\u0003");

    expect(await interrupted).toEqual({ reason: "User interrupted" });
    expect(await answered).toMatchObject({ approved: false });
    expect(text()).toMatch(/Approve\? \nInterrupting the worker…\n$/);
  });

  test("a question interrupts the conversation, which continues afterwards", async () => {
    const { bus, adapter, type, sees } = await terminalWorld();

    const line = adapter.readLine("you> ");
    const answer = createRuntimeUI(bus).requestApproval(asked);
    await sees("Approve?");
    type("y");
    expect(await answer).toBe(true);
    type("and now");

    expect(await line).toBe("and now");
  });

  test("Ctrl+C leaves a form", async () => {
    const { bus, input, type, sees } = await terminalWorld();
    createRuntimeUI(bus).showManualTools([
      {
        name: "push",
        label: "Push",
        description: "",
        fields: [{ name: "to", description: "", type: "text", required: true }],
      },
    ]);

    type("/push -i");
    await sees("to (text): ");
    input.write("\u0003");

    await sees("The tool was not called.");
  });

  test("lines are messages of a conversation until /exit or the end of the input", async () => {
    const leaving = await terminalWorld();
    const ending = await terminalWorld();

    const first = leaving.adapter.readLine();
    leaving.type("hello");
    expect(await first).toBe("hello");
    const second = leaving.adapter.readLine();
    leaving.type("/exit");
    expect(await second).toBeUndefined();
    expect(await leaving.adapter.readLine()).toBeUndefined();

    const last = ending.adapter.readLine();
    ending.input.end();
    expect(await last).toBeUndefined();
  });
});

describe("slash commands", () => {
  const push: ManualToolInfo = {
    name: "git_push",
    label: "Push to Remote",
    description: "Push commits",
    category: "Git",
    fields: [
      { name: "branch", description: "Target branch", type: "text", required: true },
      {
        name: "remote",
        description: "",
        type: "select",
        required: false,
        options: ["origin", "upstream"],
        default: "origin",
      },
      { name: "force", description: "", type: "boolean", required: false, default: false },
    ],
  };

  async function withTools() {
    const world = await terminalWorld();
    const ui = createRuntimeUI(world.bus);
    ui.showManualTools([push]);
    ui.updateWorker("w1", "helper", "running", undefined, 0, "anthropic:claude-haiku-4-5", ["read_file"]);
    ui.updateContextUsage(10, 100);
    return world;
  }

  test.each([
    ["/help", /\/tool name -i/],
    ["/tools", /Git:\n {2}\/git_push {2}Push to Remote — Push commits/],
    ["/status", /helper: running \(anthropic:claude-haiku-4-5, 1 tool\)\nContext: 10 of 100 tokens/],
    ["/model", /The model is anthropic:claude-haiku-4-5/],
    ["/hepl", /Unknown command \/hepl\. Did you mean \/help\?/],
    ["/tool", /Name a tool/],
    ["/tool git_pushh", /Did you mean \/git_push/],
    ["/git_push main", /"main" has no option name/],
    ["/git_push --force maybe", /force must be yes or no/],
    ['/x "open', /Unclosed double quote/],
  ])("%s", async (line, expected) => {
    const { type, sees } = await withTools();

    type(line);

    await sees(expected);
  });

  test("any other line is a message for the worker", async () => {
    const { type, next } = await withTools();
    const sent = next("userMessage");

    type("use tabs, please");

    expect(await sent).toEqual({ content: "use tabs, please" });
  });

  test.each([
    ["/tool git_push --branch main", { branch: "main" }],
    ["/t git_push --branch=main --force", { branch: "main", force: true }],
    ["/git_push -b main --remote upstream", { branch: "main", remote: "upstream" }],
    ["/GIT_PUSH --branch main", { branch: "main" }],
  ])("%s calls the tool", async (line, args) => {
    const { type, next } = await withTools();
    const called = next("manualToolInvoke");

    type(line);

    expect(await called).toEqual({ toolName: "git_push", args });
  });

  test("/tool name -i asks for each field, and again after an invalid answer", async () => {
    const { type, next, sees, text } = await withTools();
    const called = next("manualToolInvoke");

    type("/tool git_push -i");
    for (const [question, answer] of [
      ["branch (text) Target branch:", ""],
      ["branch is required", "/main"],
      ['remote (origin|upstream, default "origin"):', "upstram"],
      ["remote must be one of origin, upstream", "upstream"],
      ["force (yes|no, default false):", ""],
    ] as const) {
      await sees(question);
      type(answer);
    }

    expect(await called).toEqual({ toolName: "git_push", args: { branch: "/main", remote: "upstream" } });
    expect(text()).toContain("branch is required.");
  });

  test.each([
    ["/clear", { name: "clear", args: [] }],
    ["/revoke k7mq", { name: "revoke", args: ["k7mq"] }],
    ["/model openai:gpt-5", { name: "model", args: ["openai:gpt-5"] }],
  ])("%s is passed to the runtime", async (line, command) => {
    const { type, next } = await withTools();
    const received = next("command");

    type(line);

    expect(await received).toEqual(command);
  });
});

describe("a terminal", () => {
  const atTerminal = (options: Parameters<typeof terminalWorld>[0] = {}) =>
    terminalWorld({ isTTY: true, inputIsTTY: true, ...options });

  test("the worker's activity is shown while it works, and removed at the end", async () => {
    const { bus, text, sees } = await atTerminal();
    const ui = createRuntimeUI(bus);

    ui.updateWorker("run-1", "helper", "running");
    await sees("Thinking");
    ui.showToolStarted("call-1", "run_tests", {});
    await sees(/. run_tests.* › /);
    ui.endSession("completed");

    expect(text().endsWith("\r\u001b[K")).toBe(true);
  });

  test("streamed Markdown is printed block by block", async () => {
    const { bus, text, sees } = await atTerminal();
    const ui = createRuntimeUI(bus);

    ui.appendStreaming("1", "First **bold** bl");
    ui.appendStreaming("1", "ock\n\n```\na\n\nb");
    await sees("block");
    expect(text()).toContain("Writing");
    expect(text()).not.toContain("**");
    expect(text()).not.toMatch(/^a$/m);
    ui.appendStreaming("1", "\n```\n");
    ui.endStreaming("1");
    ui.showMessage({ role: "assistant", content: "First **bold** block\n\n```\na\n\nb\n```\n" });

    await sees("b");
    expect(text().match(/First/g)).toHaveLength(1);
  });

  test("messages are in the history of later sessions, and answers are not", async () => {
    const historyFile = join(await mkdtemp(join(tmpdir(), "golem-forge-history-")), "golem", "history");
    const first = await atTerminal({ historyFile });
    const message = first.adapter.readLine();
    first.input.write("look at this\r");
    expect(await message).toBe("look at this");
    const answer = createRuntimeUI(first.bus).requestApproval(asked);
    await first.sees("Approve?");
    first.input.write("y\r");
    expect(await answer).toBe(true);
    await first.adapter.shutdown();

    const second = await atTerminal({ historyFile });
    const again = second.adapter.readLine();
    second.input.write("\u001b[A\r");

    expect(await again).toBe("look at this");
    expect((await stat(historyFile)).mode & 0o777).toBe(0o600);
  });

  test("a question is answered after Ctrl+Z and fg", async () => {
    const kill = vi.spyOn(process, "kill").mockReturnValue(true);
    const { bus, input, sees } = await atTerminal();
    const answer = createRuntimeUI(bus).requestApproval(asked);
    await sees("Approve? ");

    const stopped = vi.waitFor(() => expect(kill).toHaveBeenCalledWith(process.pid, "SIGTSTP"));
    input.write("\u001a");
    await stopped;
    kill.mockRestore();
    process.emit("SIGCONT");
    input.write("y\r");

    expect(await answer).toBe(true);
  });

  test("a backslash continues a message on the next line", async () => {
    const { adapter, input } = await atTerminal();
    const message = adapter.readLine();

    input.write("first\\\rsecond\r");

    expect(await message).toBe("first\nsecond");
  });

  test("Tab completes commands and the paths of files", async () => {
    const files = async () => ["src/total.ts", "src/t\u001b]0;title\u0007.ts", "README.md"];
    const { adapter, input, sees } = await atTerminal({ files });
    const message = adapter.readLine();

    // A path with characters that the terminal would obey is not offered.
    input.write("look at @src/t\t");
    await sees("@src/total.ts");
    input.write("\r");
    expect(await message).toBe("look at @src/total.ts");
    input.write("/stat\t");
    await sees("/status");
  });
});

test("a line with a deep indentation is wrapped without repeating it", () => {
  const text = `${" ".repeat(10_000)}deep`;

  const rows = wrapLines(text, 80).split("\n");

  expect(rows.at(-1)?.trim()).toBe("deep");
  expect(rows.length).toBeLessThan(200);
  expect(Math.max(...rows.map((row) => row.length))).toBeLessThanOrEqual(80);
});

test.each([
  [
    "an ellipsis in its first column",
    "  golem eval [task…]           ",
    "run tasks with models, and report which were solved",
  ],
  [
    "a row that continues another",
    " ".repeat(32),
    "copy everything to an empty PostgreSQL database; the server must be stopped",
  ],
])("a list with %s fills the width of the terminal", (_, start, text) => {
  const [first = "", ...rest] = wrapLines(start + text, 80).split("\n");
  const [nextWord = ""] = rest.join("").trim().split(" ");

  expect(first.length).toBeLessThanOrEqual(80);
  expect(`${first.trimEnd()} ${nextWord}`.length).toBeGreaterThan(80);
  expect(rest.every((row) => row.startsWith(" ".repeat(start.length)))).toBe(true);
});

test("the second column of a list is wrapped at the width of the terminal, in its first row too", () => {
  const option = "      --json                    print one event per line, for scripts, and ask no questions";

  expect(
    wrapLines(option, 80)
      .split("\n")
      .map((row) => row.trimEnd()),
  ).toEqual([
    "      --json                    print one event per line, for scripts, and ask",
    "                                no questions",
  ]);
});
