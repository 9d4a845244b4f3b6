import { describe, expect, test, vi } from "vitest";
import { ApprovalController, type ApprovalDecision, ApprovalMemory, type ApprovalRequest } from "#compat/index.ts";

const request: ApprovalRequest = {
  toolName: "write_file",
  toolArgs: { path: "/tmp/test.txt" },
  description: "Write to /tmp/test.txt",
};

function interactive(decision: ApprovalDecision) {
  const approvalCallback = vi.fn(async () => decision);
  return { approvalCallback, controller: new ApprovalController({ mode: "interactive", approvalCallback }) };
}

describe("modes", () => {
  test("approve_all approves", async () => {
    const controller = new ApprovalController({ mode: "approve_all" });
    expect(await controller.requestApproval(request)).toEqual({ approved: true, remember: "none" });
    expect((await controller.getCallback()(request)).approved).toBe(true);
  });

  test("auto_deny denies, with a note that names the mode and the tool", async () => {
    const { approved, note } = await new ApprovalController({ mode: "auto_deny" }).requestApproval(request);
    expect(approved).toBe(false);
    expect(note).toContain("Auto-deny mode");
    expect(note).toContain("auto_deny");
    expect(note).toContain("write_file");
  });

  test.each([{}, { mode: "interactive" as const }])(
    "interactive without a callback is refused at construction: %j",
    (options) => {
      expect(() => new ApprovalController(options)).toThrow("requires an approvalCallback");
    },
  );

  test("an unknown mode is refused by the constructor", () => {
    expect(() => new ApprovalController({ mode: "yolo" as never })).toThrow('Unknown approval mode "yolo"');
  });

  test("interactive asks the callback with the request", async () => {
    const { controller, approvalCallback } = interactive({ approved: true, remember: "none" });
    expect((await controller.requestApproval(request)).approved).toBe(true);
    expect(approvalCallback).toHaveBeenCalledExactlyOnceWith(expect.objectContaining(request));
  });

  test("alternative field names are accepted, and arguments may be edited", async () => {
    const { controller, approvalCallback } = interactive({
      approved: true,
      modifiedArgs: { path: "b" },
      remember: "session",
    });
    const other: ApprovalRequest = { stepId: "1", tool: "write_file", args: { path: "a" }, reason: "It overwrites a." };

    expect(await controller.requestApproval(other)).toMatchObject({ modifiedArgs: { path: "b" } });
    expect(controller.isSessionApproved(other)).toBe(false);
    expect(controller.isSessionApproved({ ...other, args: { path: "b" } })).toBe(true);
    expect(approvalCallback).toHaveBeenCalledOnce();
  });
});

describe("session memory", () => {
  test("a call approved for the session needs no further approval, in any order of its keys", async () => {
    const { controller, approvalCallback } = interactive({ approved: true, remember: "session" });
    const [first, second, other] = [
      { a: 1, b: { c: 2 } },
      { b: { c: 2 }, a: 1 },
      { a: 1, b: { c: 3 } },
    ];

    await controller.requestApproval({ ...request, toolArgs: first });
    await controller.requestApproval({ ...request, toolArgs: second });
    expect(approvalCallback).toHaveBeenCalledTimes(1);

    await controller.requestApproval({ ...request, toolArgs: other });
    await controller.requestApproval({ ...request, toolArgs: first, toolName: "delete_file" });
    expect(approvalCallback).toHaveBeenCalledTimes(3);
  });

  test.each<ApprovalDecision>([
    { approved: true, remember: "none" },
    { approved: true },
    { approved: false, remember: "session" },
  ])("a call decided with %j is asked about again", async (decision) => {
    const { controller, approvalCallback } = interactive(decision);
    await controller.requestApproval(request);
    await controller.requestApproval(request);
    expect(approvalCallback).toHaveBeenCalledTimes(2);
    expect(controller.isSessionApproved(request)).toBe(false);
  });

  test("session memory can be cleared", async () => {
    const { controller } = interactive({ approved: true, remember: "session" });
    await controller.requestApproval(request);
    expect(controller.isSessionApproved(request)).toBe(true);

    controller.clearSessionApprovals();

    expect(controller.isSessionApproved(request)).toBe(false);
  });

  test("session memory copies the arguments", () => {
    const memory = new ApprovalMemory();
    const args = { path: "a" };
    memory.store("write_file", args, { approved: true, remember: "session" });
    memory.store("write_file", { path: "c" }, { approved: true, remember: "none" });
    args.path = "b";

    expect(memory.lookup("write_file", { path: "a" })).toEqual({ approved: true, remember: "session" });
    expect(memory.lookup("write_file", { path: "b" })).toBeUndefined();
    expect(memory.lookup("write_file", { path: "c" })).toBeUndefined();
    expect(memory.size).toBe(1);
    expect(memory.listApprovals()).toEqual([
      { toolName: "write_file", toolArgs: { path: "a" }, decision: { approved: true, remember: "session" } },
    ]);
    memory.clear();
    expect(memory.size).toBe(0);
  });

  test("session memory distinguishes dates and maps, which JSON does not", () => {
    const memory = new ApprovalMemory();
    memory.store("t", { at: new Date(1), map: new Map([["a", 1]]) }, { approved: true, remember: "session" });
    expect(memory.lookup("t", { at: new Date(2), map: new Map([["a", 1]]) })).toBeUndefined();
    expect(memory.lookup("t", { at: new Date(1), map: new Map([["a", 2]]) })).toBeUndefined();
    expect(memory.lookup("t", { at: new Date(1), map: new Map([["a", 1]]) })).toBeDefined();
  });
});

describe("waiting", () => {
  test("concurrent requests can be answered in any order", async () => {
    const answers = new Map<string, (decision: ApprovalDecision) => void>();
    const approvalCallback = (asked: ApprovalRequest) =>
      new Promise<ApprovalDecision>((resolve) => answers.set("toolName" in asked ? asked.toolName : "", resolve));
    const controller = new ApprovalController({ approvalCallback });

    const first = controller.requestApproval(request);
    const second = controller.requestApproval({ ...request, toolName: "delete_file" });
    await vi.waitFor(() => expect(answers.size).toBe(2), { timeout: 60_000 });
    answers.get("delete_file")?.({ approved: false, note: "no" });
    answers.get("write_file")?.({ approved: true });

    expect(await first).toEqual({ approved: true });
    expect(await second).toEqual({ approved: false, note: "no" });
  });

  test("a request that times out is denied with a note", async () => {
    const controller = new ApprovalController({ approvalCallback: () => new Promise(() => {}), timeoutMs: 1 });
    expect(await controller.requestApproval(request)).toMatchObject({
      approved: false,
      note: expect.stringContaining("timed out"),
    });
  });

  test("a request that is aborted, before or while it waits, is denied with a note", async () => {
    const approvalCallback = vi.fn(() => new Promise<ApprovalDecision>(() => {}));
    const controller = new ApprovalController({ approvalCallback });
    const stop = new AbortController();

    const before = await controller.requestApproval(request, { signal: AbortSignal.abort() });
    expect(approvalCallback).not.toHaveBeenCalled();
    const waiting = controller.requestApproval(request, { signal: stop.signal });
    stop.abort();

    expect(before).toMatchObject({ approved: false, note: expect.stringContaining("aborted") });
    expect(await waiting).toMatchObject({ approved: false, note: expect.stringContaining("aborted") });
  });

  test("a callback that fails approves nothing", async () => {
    const controller = new ApprovalController({ approvalCallback: () => Promise.reject(new Error("no terminal")) });
    await expect(controller.requestApproval(request)).rejects.toThrow("no terminal");
    expect(controller.isSessionApproved(request)).toBe(false);
  });
});
