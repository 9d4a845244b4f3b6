import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  createRuntimeUI,
  createUIEventBus,
  type DisplayEvents,
  type RuntimeUI,
  type UIEventBus,
} from "#compat/index.ts";

describe("bus", () => {
  test("the bus calls all handlers of an event and no others", () => {
    const bus = createUIEventBus();
    const [first, second, other] = [vi.fn(), vi.fn(), vi.fn()];
    bus.on("status", first);
    bus.on("status", second);
    bus.on("message", other);

    bus.emit("status", { type: "info", message: "Processing..." });

    expect(first).toHaveBeenCalledExactlyOnceWith({ type: "info", message: "Processing..." });
    expect(second).toHaveBeenCalledOnce();
    expect(other).not.toHaveBeenCalled();
  });

  test("unsubscribing removes only that handler", () => {
    const bus = createUIEventBus();
    const [gone, stays] = [vi.fn(), vi.fn()];
    const stop = bus.on("interrupt", gone);
    bus.on("interrupt", stays);
    bus.on("interrupt", gone);

    stop();
    stop();
    bus.emit("interrupt", {});

    expect(gone).toHaveBeenCalledOnce();
    expect(stays).toHaveBeenCalledOnce();
  });

  test("a handler that throws or rejects does not affect the others", async () => {
    const onHandlerError = vi.fn();
    const bus = createUIEventBus({ onHandlerError });
    const handler = vi.fn();
    bus.on("interrupt", () => JSON.parse("{"));
    bus.on("interrupt", async () => JSON.parse("{"));
    bus.on("interrupt", handler);

    bus.emit("interrupt", {});

    expect(handler).toHaveBeenCalledOnce();
    await vi.waitFor(() => expect(onHandlerError).toHaveBeenCalledTimes(2), { timeout: 60_000 });
  });

  test("errors of handlers are written to the console by default", () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const bus = createUIEventBus();
    bus.on("interrupt", () => JSON.parse("{"));

    bus.emit("interrupt", {});

    expect(log).toHaveBeenCalledOnce();
    log.mockRestore();
  });

  test("off ends the subscriptions to one event, clear ends all", () => {
    const bus = createUIEventBus();
    const [status, interrupt] = [vi.fn(), vi.fn()];
    bus.on("status", status);
    bus.on("interrupt", interrupt);

    bus.off("status");
    bus.emit("status", { type: "info", message: "" });
    bus.emit("interrupt", {});
    bus.clear();
    bus.emit("interrupt", {});

    expect(status).not.toHaveBeenCalled();
    expect(interrupt).toHaveBeenCalledOnce();
  });
});

describe("display methods", () => {
  const field = { name: "branch", description: "", type: "text" as const, required: true };
  const info = { name: "deploy", label: "Deploy", description: "Deploys", fields: [field] };
  const summary = { path: "a", operation: "update" as const, additions: 1, deletions: 2 };
  const value = { kind: "text" as const, content: "x" };
  const result = { toolCallId: "t1", toolName: "read_file", args: {}, status: "success", durationMs: 5, value };

  test.each<[keyof DisplayEvents, (ui: RuntimeUI) => void, object]>([
    [
      "message",
      (ui) => ui.showMessage({ role: "assistant", content: "Hi" }),
      { message: { role: "assistant", content: "Hi" } },
    ],
    [
      "status",
      (ui) => ui.showStatus({ type: "info", message: "Processing..." }),
      { type: "info", message: "Processing..." },
    ],
    ["status", (ui) => ui.showStatus("warning", "Careful"), { type: "warning", message: "Careful" }],
    ["streaming", (ui) => ui.startStreaming("r1"), { requestId: "r1", delta: "", done: false }],
    ["streaming", (ui) => ui.appendStreaming("r1", "token"), { requestId: "r1", delta: "token", done: false }],
    ["streaming", (ui) => ui.endStreaming("r1"), { requestId: "r1", delta: "", done: true }],
    [
      "toolStarted",
      (ui) => ui.showToolStarted("t1", "read_file", { path: "/src" }),
      { toolCallId: "t1", toolName: "read_file", args: { path: "/src" } },
    ],
    [
      "toolResult",
      (ui) => ui.showToolResult("t1", "read_file", {}, "success", 5, value),
      { ...result, error: undefined },
    ],
    [
      "workerUpdate",
      (ui) => ui.updateWorker("w1", "Test", "running"),
      { workerId: "w1", task: "Test", status: "running", depth: 0 },
    ],
    ["manualToolsAvailable", (ui) => ui.showManualTools([info]), { tools: [info] }],
    ["diffSummary", (ui) => ui.showDiffSummary("d1", [summary]), { requestId: "d1", summaries: [summary] }],
    [
      "diffContent",
      (ui) => ui.showDiffContent("d1", "a", "x", "y", false),
      { requestId: "d1", path: "a", original: "x", modified: "y", isNew: false },
    ],
    ["sessionEnd", (ui) => ui.endSession("completed", "All done"), { reason: "completed", message: "All done" }],
    ["contextUsage", (ui) => ui.updateContextUsage(11, 10), { tokensUsed: 11, tokenLimit: 10, exceeded: true }],
  ])("%s", (event, show, data) => {
    const bus = createUIEventBus();
    const handler = vi.fn();
    bus.on(event, handler);

    show(createRuntimeUI(bus));

    expect(handler.mock.calls).toEqual([[data]]);
  });
});

describe("requests of the runtime", () => {
  const asked = { type: "tool_call", description: "Write file /output/result.txt", risk: "medium" } as const;
  let bus: UIEventBus;
  let ui: RuntimeUI;
  let requests: DisplayEvents["approvalRequired"][];

  beforeEach(() => {
    vi.useFakeTimers();
    bus = createUIEventBus();
    ui = createRuntimeUI(bus);
    requests = [];
    bus.on("approvalRequired", (request) => requests.push(request));
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function answer(index: number, approved: boolean | "session" | "always", reason?: string) {
    const requestId = requests[index]?.requestId ?? "";
    bus.emit("approvalResponse", { requestId, approved, ...(reason !== undefined && { reason }) });
  }

  test.each([
    [true, true],
    ["session", true],
    ["always", true],
    [false, false],
  ] as const)("%j is an approval: %j", async (given, approved) => {
    const asking = ui.requestApproval(asked);
    expect(requests).toEqual([{ requestId: expect.any(String), ...asked, workerPath: [] }]);
    answer(0, given);
    expect(await asking).toBe(approved);
  });

  test("a request with positional arguments resolves to the kind of approval or the reason of a denial", async () => {
    const path = [{ id: "w1", depth: 0, task: "Test" }];
    const first = ui.requestApproval("tool_call", "Run", { command: "npm test" }, "high", path);
    const second = ui.requestApproval("command", "Run", {}, "low", []);
    answer(0, "session");
    answer(1, false, "Too risky");

    expect(await first).toEqual({ approved: "session" });
    expect(await second).toEqual({ approved: false, reason: "Too risky" });
    expect(requests[0]).toMatchObject({ details: { command: "npm test" }, workerPath: path });
  });

  test("concurrent requests are answered in any order", async () => {
    const [first, second] = [ui.requestApproval(asked), ui.requestApproval(asked)];
    answer(1, false);
    answer(0, true);
    expect(await Promise.all([first, second])).toEqual([true, false]);
  });

  test("an answer with another request id is ignored", async () => {
    const asking = ui.requestApproval(asked, { timeoutMs: 1_000 });
    bus.emit("approvalResponse", { requestId: "another", approved: true });
    vi.advanceTimersByTime(1_001);
    await expect(asking).rejects.toThrow("Approval request timed out");
  });

  test.each([
    ["Approval request", (ui: RuntimeUI, signal: AbortSignal) => ui.requestApproval(asked, { signal })],
    ["User input request", (ui: RuntimeUI, signal: AbortSignal) => ui.getUserInput("?", { signal })],
  ])("%s rejects when it is aborted, before or while it waits", async (what, ask) => {
    const stop = new AbortController();
    const waiting = ask(ui, stop.signal);
    stop.abort();

    await expect(waiting).rejects.toThrow(`${what} aborted`);
    await expect(ask(ui, AbortSignal.abort())).rejects.toThrow(`${what} aborted`);
  });

  test("an approval times out after five minutes, an input after ten", async () => {
    const [approval, input] = [ui.requestApproval(asked), ui.getUserInput()];
    approval.catch(() => {});
    input.catch(() => {});
    vi.advanceTimersByTime(5 * 60_000);
    await expect(approval).rejects.toThrow("Approval request timed out");
    vi.advanceTimersByTime(5 * 60_000);
    await expect(input).rejects.toThrow("User input request timed out");
  });

  test("an input resolves to the typed text, and may have its own prompt", async () => {
    const prompts: DisplayEvents["inputPrompt"][] = [];
    bus.on("inputPrompt", (prompt) => prompts.push(prompt));
    const [named, plain] = [ui.getUserInput("Enter your message:"), ui.getUserInput()];

    bus.emit("userInput", { requestId: prompts[1]?.requestId ?? "", content: "two" });
    bus.emit("userInput", { requestId: prompts[0]?.requestId ?? "", content: "one" });

    expect(prompts.map(({ prompt }) => prompt)).toEqual(["Enter your message:", "> "]);
    expect([await named, await plain]).toEqual(["one", "two"]);
  });

  test("handlers receive a person's actions until they unsubscribe", () => {
    const [interrupt, invoke, diff] = [vi.fn(), vi.fn(), vi.fn()];
    const stop = ui.onInterrupt(interrupt);
    ui.onManualToolInvoke(invoke);
    ui.onGetDiff(diff);

    bus.emit("interrupt", { reason: "User cancelled" });
    bus.emit("manualToolInvoke", { toolName: "deploy", args: { a: 1 } });
    bus.emit("getDiff", { requestId: "d1", path: "a" });
    stop();
    bus.emit("interrupt", {});

    expect(interrupt).toHaveBeenCalledExactlyOnceWith("User cancelled");
    expect(invoke).toHaveBeenCalledExactlyOnceWith("deploy", { a: 1 });
    expect(diff).toHaveBeenCalledExactlyOnceWith("d1", "a");
    expect(ui.bus).toBe(bus);
  });
});
