import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { approvalDigest } from "#domain/approval.ts";
import { BlockedError, OutageError, ToolError, UserError } from "#domain/errors.ts";
import type { RunEvent } from "#domain/events.ts";
import { GitHubRefusalError } from "#domain/github.ts";
import { LeaseLostError, withLease } from "#domain/work-context.ts";
import { NotRunError } from "#runtime/effects/check-approval.ts";
import { PostponedError } from "#runtime/effects/effect-handler.ts";
import { executeTool } from "#runtime/effects/tool-calls.ts";
import { type Decision, OutdatedMergeError, restoredPost } from "#runtime/store/store.ts";
import { type EffectWorldOptions, effectWorld } from "../../support/effect-world.ts";
import { sampleEffect } from "../../support/store-samples.ts";
import { aTool } from "../../support/toolbox-world.ts";

const args = { path: "a.txt" };

/** A run with one approved call of a tool that needs approval. */
async function approved(options: EffectWorldOptions = {}, decision: Partial<Decision> = {}) {
  const execute = vi.fn(() => "done");
  const deploy = aTool({ name: "deploy", needsApproval: true, execute });
  const made = await effectWorld({ tools: [deploy], ...options });
  const { id: approvalId } = await made.approvedCall("deploy", args, decision);
  const request = { kind: "tool.execute" as const, callId: "call-1", approvalId };
  return {
    ...made,
    execute,
    approvalId,
    executeOnce: () => made.perform(executeTool(made.services), made.effect(request)),
  };
}

test("an approved call runs, and its approval is marked as used", async () => {
  const { executeOnce, execute, store, approvalId, confirmPermission } = await approved();

  const result = await executeOnce();

  expect(execute).toHaveBeenCalledOnce();
  expect(result.execution).toEqual({ approvalId, outcome: "executed" });
  expect(await store.findApproval(approvalId)).toMatchObject({ status: "used", begun: ["k1"] });
  expect(result.events).toMatchObject([{ runId: "r1", event: { type: "tool.finished", callId: "call-1" } }]);
  expect(confirmPermission).toHaveBeenCalledExactlyOnceWith("ada", expect.anything(), undefined);
});

test("an approval that was used does not let the call run again", async () => {
  const { executeOnce, execute, store, approvalId } = await approved();
  await store.beginExecution({ approvalId, callId: "call-1", runId: "r1", effectKey: "another", now: 0 });

  await expect(executeOnce()).rejects.toThrow("This was not run: its approval is no longer valid.");
  expect(execute).not.toHaveBeenCalled();
});

test.each(["denied", "expired", "withdrawn", "pending"] as const)(
  "a call whose approval is %s does not run",
  async (status) => {
    const { executeOnce, execute, store, approvalId } = await approved();
    const approval = await store.findApproval(approvalId);
    store.findApproval = async () => approval && { ...approval, status };

    const refused = executeOnce();

    await expect(refused).rejects.toThrow(ToolError);
    await expect(refused).rejects.toMatchObject({ code: "DENIED" });
    expect(execute).not.toHaveBeenCalled();
  },
);

test("an approval of another call does not count, and neither does one that was removed", async () => {
  const { executeOnce, execute, store, approvalId } = await approved();
  const approval = await store.findApproval(approvalId);

  for (const found of [approval && { ...approval, callId: "call-2" }, undefined]) {
    store.findApproval = async () => found;
    await expect(executeOnce()).rejects.toThrow("its approval is no longer valid");
  }
  expect(execute).not.toHaveBeenCalled();
});

test("each of several approvers is judged by a permission of their own", async () => {
  const settings = "approvals: [{ people: [ada], permission: admin }, { people: [mia] }]";
  const permission = async (login: string) => (login === "ada" ? "admin" : "write");
  const { executeOnce, execute, store, approvalId } = await approved({ settings, permission });
  const approval = await store.findApproval(approvalId);
  const answers = ["ada", "mia"].map((by) => ({ by, at: 0 }));
  store.findApproval = async () => approval && { ...approval, answers };

  await executeOnce();

  expect(execute).toHaveBeenCalledOnce();
});

test("an approval by someone who has lost write access does not count", async () => {
  const { executeOnce, execute } = await approved({ permission: async () => "read" });

  await expect(executeOnce()).rejects.toThrow("GitHub no longer confirms write access");
  expect(execute).not.toHaveBeenCalled();
});

const refusal = new GitHubRefusalError("GitHub does not let this app look that up.", { status: 403, cause: undefined });

test.each([
  [new OutageError("GitHub did not answer."), "GitHub did not say whether @ada has write access. Asking again."],
  [refusal, "GitHub does not let this app look that up. Asking again."],
])(
  "while GitHub does not say who may approve, the call is postponed and neither runs nor is denied: %s",
  async (outage, reason) => {
    const { executeOnce, execute, clock } = await approved({ permission: () => Promise.reject(outage) });

    const postponed: PostponedError = await executeOnce().catch((error) => error);

    expect(postponed).toBeInstanceOf(PostponedError);
    expect(postponed).toMatchObject({ until: clock.now + 30_000, cause: outage });
    expect(postponed.reason).toBe(reason);
    expect(execute).not.toHaveBeenCalled();
  },
);

test("a call that is interrupted while GitHub is asked is not postponed", async () => {
  const interrupt = new AbortController();
  const permission = async () => {
    interrupt.abort(new Error("The run was interrupted."));
    throw new OutageError("GitHub did not answer.");
  };
  const { services, effect, run, approvalId } = await approved({ permission });
  const request = effect({ kind: "tool.execute" as const, callId: "call-1", approvalId });

  await expect(executeTool(services).perform(request, run, interrupt.signal)).rejects.toThrow(OutageError);
});

test("settings that are added after an approval apply to it", async () => {
  const made = await approved({ settings: "second_person: true" });

  await expect(made.executeOnce()).rejects.toThrow("This was not run: ");
  expect(made.execute).not.toHaveBeenCalled();
});

/** An approved call to which these settings apply only since it was approved. */
async function approvedBefore(settings: string, ...options: Parameters<typeof approved>) {
  const made = await approved(...options);
  vi.spyOn(made.run.repository, "readFile").mockImplementation(async () => settings);
  return made;
}

test.each([
  ["approvals: [{ codeowners: true }]", "@ada may not approve here. Approvers: @mia as owner of a.txt"],
  ["approvals: [{ required: 2, exclude: nobody }]", "it has 1 of 2 approvals by Anyone with write access"],
])(
  "the refusal of a call says whose approval it lacks under settings that were added: %s",
  async (settings, reason) => {
    const change = { path: "a.txt", kind: "added" as const, size: 1 };
    const preview = () => ({ sections: [{ kind: "file" as const, change, diff: "+a" }] });
    const tools = [aTool({ name: "deploy", needsApproval: true, preview })];
    const made = await approved({ tools });
    vi.spyOn(made.run.repository, "readFile").mockImplementation(async (path) =>
      path.includes("CODEOWNERS") ? "* @mia" : settings,
    );

    await expect(made.executeOnce()).rejects.toThrow(`This was not run: ${reason}.`);
  },
);

test.each([
  ["its login, which GitHub says whose it is", "approvals: [{ people: [Ada] }]"],
  ["a team", "approvals: [{ teams: [acme/core] }]"],
])("an approval counts under settings that were added and name the approver by %s", async (_, settings) => {
  const { executeOnce, execute, run } = await approvedBefore(settings, {}, { byId: 7 });
  vi.spyOn(run.repository, "findAccount").mockImplementation(async (login) => ({ login, id: login === "ada" ? 7 : 8 }));
  vi.spyOn(run.repository, "isTeamMember").mockImplementation(async (team, { id }) => team === "acme/core" && id === 7);

  await executeOnce();

  expect(execute).toHaveBeenCalledOnce();
});

test("while GitHub does not say who is in a team, the call is postponed with the reason", async () => {
  const { executeOnce, execute, run } = await approvedBefore("approvals: [{ teams: [acme/core] }]");
  vi.spyOn(run.repository, "isTeamMember").mockRejectedValue(new OutageError("GitHub did not answer."));

  const postponed = await executeOnce().catch((error) => error);

  expect(postponed).toBeInstanceOf(PostponedError);
  expect(postponed).toMatchObject({ reason: "GitHub did not say who may approve this. Asking again." });
  expect(execute).not.toHaveBeenCalled();
});

test("a call whose approvers cannot be checked is not postponed if asking again would not help", async () => {
  const cause = undefined;
  const gone = new GitHubRefusalError("GitHub does not know this repository.", { status: 404, cause });
  const { executeOnce, execute } = await approved({ permission: () => Promise.reject(gone) });
  const invalid = await approvedBefore("approvals: everyone");

  await expect(executeOnce()).rejects.toBe(gone);
  await expect(invalid.executeOnce()).rejects.toThrow(UserError);
  expect(execute).not.toHaveBeenCalled();
  expect(invalid.execute).not.toHaveBeenCalled();
});

const noResponse = "GitHub does not respond. The call is executed when it does.";
const untilLater = new OutageError("GitHub's rate limit is used up until 12:30 UTC.", { retryAt: 90_000 });

test.each<[string, Error, { until: number; reason: string }]>([
  ["an outage", new OutageError("The git server closed the connection."), { until: 40_000, reason: noResponse }],
  ["the status 502", Object.assign(new Error("Bad Gateway"), { status: 502 }), { until: 40_000, reason: noResponse }],
  ["a rate limit", untilLater, { until: 90_000, reason: untilLater.message }],
])(
  "an approved call is postponed by %s while its preview is made again, and then runs once",
  async (_, outage, told) => {
    let isOut = false;
    const preview = () => (isOut ? Promise.reject(outage) : "It deploys.");
    const execute = vi.fn(() => "done");
    const tools = [aTool({ name: "deploy", needsApproval: true, afterCrash: "report", preview, execute })];
    const { executeOnce, store, approvalId } = await approved({ tools });
    isOut = true;

    const postponed = await executeOnce().catch((error) => error);

    expect(postponed).toBeInstanceOf(PostponedError);
    expect(postponed).toMatchObject({ ...told, cause: outage });
    expect(execute).not.toHaveBeenCalled();
    expect(await store.findApproval(approvalId)).toMatchObject({ status: "approved" });
    isOut = false;
    const { execution } = await executeOnce();
    expect(execute).toHaveBeenCalledOnce();
    expect(execution).toEqual({ approvalId, outcome: "executed" });
  },
);

test("a call that needed no approval is postponed as well while the repository cannot be read", async () => {
  const { answer, perform, effect, run, services } = await effectWorld();
  await answer("read_file", args);
  vi.spyOn(run, "workspace").mockRejectedValue(new OutageError("The git server cannot be reached: ECONNREFUSED."));

  const executed = perform(executeTool(services), effect({ kind: "tool.execute", callId: "call-1" }));

  await expect(executed).rejects.toThrow(PostponedError);
});

test("an approved call is postponed while the repository cannot be read", async () => {
  const { executeOnce, execute, run } = await approved();
  vi.spyOn(run, "workspace").mockRejectedValueOnce(new OutageError("The git server cannot be reached: ECONNREFUSED."));

  await expect(executeOnce()).rejects.toThrow(PostponedError);
  expect(execute).not.toHaveBeenCalled();
  await executeOnce();
  expect(execute).toHaveBeenCalledOnce();
});

test("a call that policy allows by now runs although its preview is not made again", async () => {
  let isAllowed = false;
  const execute = vi.fn(() => "done");
  const preview = vi.fn(() => "It deploys.");
  const tools = [aTool({ name: "deploy", needsApproval: () => !isAllowed, preview, execute })];
  const { executeOnce } = await approved({ tools });
  isAllowed = true;

  const result = await executeOnce();

  expect(execute).toHaveBeenCalledOnce();
  expect(preview).toHaveBeenCalledOnce();
  expect(result.events).toMatchObject([{ event: { result: { llmContent: "done" } } }]);
});

test("an approval for the session lets later calls run, with the approved arguments alone", async () => {
  const execute = vi.fn(() => "done");
  const tools = [aTool({ name: "deploy", needsApproval: true, preview: ({ path }: typeof args) => path, execute })];
  const session = { remember: "session" as const };
  const { executeOnce, perform, services, effect, answer, approvalId } = await approved({ tools }, session);
  await executeOnce();

  for (const [callId, given] of Object.entries({ "call-2": args, "call-3": { path: "b.txt" } })) {
    await answer("deploy", given, callId);
    await perform(executeTool(services), effect({ kind: "tool.execute", callId, approvalId }, { key: callId }));
  }

  expect(execute.mock.calls).toEqual(Array(3).fill([args, expect.anything()]));
});

test("a request names the repository and the tool's own name", async () => {
  const { store, approvalId } = await approved();
  const child = await effectWorld({ tools: [aTool({ name: "deploy", needsApproval: true })], repositoryId: 11 });

  expect(await store.findApproval(approvalId)).toMatchObject({ tool: "deploy", toolName: "deploy" });
  expect(await store.findApproval(approvalId)).not.toHaveProperty("repositoryId");
  expect(await child.approvedCall("deploy", args)).toMatchObject({ repositoryId: 11 });
});

test("an approval that is revoked while it is checked does not count", async () => {
  const made = await approved({
    permission: async () => {
      await made?.store.revokeApproval({ approvalId: made.approvalId, by: "ada", note: "wait", now: 0 });
      return "write";
    },
  });

  await expect(made.executeOnce()).rejects.toThrow("This was not run: @ada revoked its approval: wait.");
  expect(made.execute).not.toHaveBeenCalled();
});

describe("an approved call does not run", () => {
  const world = async (tool: Parameters<typeof aTool>[0]) => {
    const execute = vi.fn();
    const made = await effectWorld({ tools: [aTool({ name: "deploy", needsApproval: true, execute, ...tool })] });
    const { id: approvalId } = await made.approvedCall("deploy", args);
    const request = made.effect({ kind: "tool.execute" as const, callId: "call-1", approvalId });
    return {
      execute,
      store: made.store,
      approvalId,
      executeOnce: () => made.perform(executeTool(made.services), request),
    };
  };

  test.each(["none", "session"] as const)(
    "an approved call does not run when it would do something else by now: approved for %s",
    async (remember) => {
      let target = "staging";
      const { execute, executeOnce, store, approvalId } = await world({ preview: () => `It deploys to ${target}.` });
      const approval = await store.findApproval(approvalId);
      vi.spyOn(store, "findApproval").mockResolvedValueOnce(approval && { ...approval, remember });
      target = "production";

      await expect(executeOnce()).rejects.toThrow("its effect has changed since it was approved");
      expect(execute).not.toHaveBeenCalled();
      expect(await store.findApproval(approvalId)).toMatchObject({ status: "approved" });
    },
  );

  test("an approved call does not run when policy forbids it by now", async () => {
    let isForbidden = false;
    const { execute, executeOnce } = await world({
      needsApproval: () => {
        if (isForbidden) throw new BlockedError("deploy", "It is Friday.");
        return true;
      },
    });
    isForbidden = true;

    await expect(executeOnce()).rejects.toThrow(
      "This was not run: it is refused: deploy is blocked by policy: It is Friday.",
    );
    expect(execute).not.toHaveBeenCalled();
  });
});

describe("a call whose need of approval depends on state", () => {
  const result = { llmContent: "", value: { kind: "text" as const, content: "" } };
  const usage = { inputTokens: 1, outputTokens: 1 };
  const finished = (tool: string): RunEvent => ({ type: "tool.finished", callId: tool, tool, result });
  const invoked = (tool: string): RunEvent => ({
    ...{ type: "tool.invoked", callId: tool, tool },
    args,
    by: "mia",
    result,
  });
  const outcome = { kind: "answered" as const, text: "" };

  test.each<[string, RunEvent, boolean]>([
    ["an earlier call of the same answer", finished("write"), true],
    ["a call by a person", invoked("write"), true],
    ["a worker that it called", { type: "child.finished", callId: "work", childId: "r2", outcome, usage }, true],
    ["a call that only reads", finished("read"), false],
    ["a call by a person that only reads", invoked("read"), false],
    ["a message", { type: "message.received", kind: "comment", text: "", by: "mia" }, false],
  ])(
    "a call whose need of approval depends on state is reviewed again before it runs, after %s: %s",
    async (_, event, isReviewed) => {
      let isRisky = false;
      const needsApproval = vi.fn(() => isRisky);
      const execute = vi.fn(() => "done");
      const deploy = aTool({ name: "deploy", needsApproval, execute });
      const tools = [deploy, aTool({ name: "write" }), aTool({ name: "read", readOnly: true })];
      const { append, answer, perform, effect, services } = await effectWorld({ tools });
      await append(finished("write"));
      await answer("deploy", args);
      const executeOnce = () => perform(executeTool(services), effect({ kind: "tool.execute", callId: "call-1" }));

      await append(event);
      await executeOnce();
      isRisky = true;
      const executed = executeOnce();

      const stale = { code: "STALE", message: expect.stringMatching(/^deploy needs/) };
      await (isReviewed ? expect(executed).rejects.toMatchObject(stale) : executed);
      expect(execute).toHaveBeenCalledTimes(isReviewed ? 1 : 2);
    },
  );

  test("a call whose need of approval depends on state does not run if policy forbids it by then", async () => {
    let isForbidden = false;
    const execute = vi.fn();
    const needsApproval = () => {
      if (isForbidden) throw new BlockedError("deploy", "It is Friday.");
      return false;
    };
    const tools = [aTool({ name: "deploy", needsApproval, execute }), aTool({ name: "write" })];
    const { append, answer, perform, effect, services } = await effectWorld({ tools });
    await answer("deploy", args);
    await append(finished("write"));
    isForbidden = true;

    const { events } = await perform(executeTool(services), effect({ kind: "tool.execute", callId: "call-1" }));

    expect(events).toMatchObject([{ event: { type: "tool.finished", result: { error: { code: "BLOCKED" } } } }]);
    expect(execute).not.toHaveBeenCalled();
  });
});

test("a push is in the ledger with its commit, and its pull request belongs to the run", async () => {
  const data = { number: 8, pushed: { commit: "d".repeat(40) } };
  const value = {
    kind: "pull_request" as const,
    data: { ...data, url: "https://github.com/ada/engine/pull/8", title: "Fix" },
  };
  const open = aTool({ name: "open_pull_request", needsApproval: true, execute: () => ({ llmContent: "", value }) });
  const { approvedCall, perform, effect, services } = await effectWorld({ tools: [open] });
  const { id: approvalId } = await approvedCall("open_pull_request", args);

  const pushed = await perform(executeTool(services), effect({ kind: "tool.execute", callId: "call-1", approvalId }));

  expect(pushed.execution).toEqual({ approvalId, outcome: "executed", commit: data.pushed.commit });
  expect(pushed.pullRequest).toBe(8);
});

describe("a call's changes", () => {
  const world = async (execute: () => unknown) => {
    const made = await effectWorld({ tools: [aTool({ name: "write", execute })] });
    await made.answer("write", args);
    return { ...made, request: made.effect({ kind: "tool.execute" as const, callId: "call-1" }) };
  };

  test("a call's changes are stored with its result, and marked as stored after the commit", async () => {
    const made = await world(() => {
      made.changeFile("a.txt");
      return "done";
    });

    const { changes, afterCommit } = await made.perform(executeTool(made.services), made.request);

    expect(changes).toMatchObject({ step: "1/call-1", changes: [{ path: "a.txt" }] });
    expect(made.tracking.markStored).not.toHaveBeenCalled();
    afterCommit?.();
    expect(made.tracking.markStored).toHaveBeenCalledOnce();
  });

  test("a call's changes are rolled back when it was cancelled before its result was stored", async () => {
    const made = await world(() => {
      made.changeFile("a.txt");
      return "done";
    });
    const { afterCancel } = await made.perform(executeTool(made.services), made.request);
    made.tracking.rollback.mockClear();

    afterCancel?.();

    expect(made.tracking.rollback).toHaveBeenCalledOnce();
    expect(made.tracking.markStored).not.toHaveBeenCalled();
  });

  test("a call's changes of an earlier attempt are dropped before it runs", async () => {
    const made = await world(() => "done");
    made.changeFile("half-written.txt");

    const { changes } = await made.perform(executeTool(made.services), made.request);

    expect(changes).toBeUndefined();
  });

  test("a call's changes are rolled back when it fails", async () => {
    const made = await world(() => {
      made.changeFile("a.txt");
      return "done";
    });
    const store = { ...made.services.store, findApproval: () => Promise.reject(new Error("The disk is full.")) };
    const handler = executeTool({ ...made.services, store: store as never });
    made.changeFile("half-written.txt");

    await expect(
      made.perform(handler, { ...made.request, request: { ...made.request.request, approvalId: "a1" } }),
    ).rejects.toThrow("The disk is full.");
    expect(made.tracking.rollback).toHaveBeenCalledTimes(2);
    expect(made.tracking.pendingChanges("1")).toBeUndefined();
  });

  test("a call's changes that replace those of a child, which finished meanwhile, are stored with a note to the model", async () => {
    const made = await world(() => {
      for (const path of ["a.txt", "c.txt"]) made.changeFile(path);
      return "done";
    });
    const result = await made.perform(executeTool(made.services), made.request);
    await made.store.ingest({ events: [], effects: [sampleEffect("r1", "k1")] });
    const { afterCommit, afterCancel, mergeAgain, ...completion } = result;
    expect(completion).toMatchObject({ mergedWith: 0, events: [{ event: { result: { llmContent: "done" } } }] });

    await made.finishChild("a.txt", "b.txt");

    await expect(made.store.completeEffect({ runId: "r1", key: "k1", ...completion })).rejects.toThrow(
      OutdatedMergeError,
    );
    const merged = await mergeAgain?.();
    const note = "its changes to them were replaced by this call's: a.txt";
    const noted = {
      llmContent: expect.stringMatching(`^done\n\n.*${note}$`),
      value: { summary: expect.stringContaining(note) },
    };
    expect(merged).toMatchObject({ mergedWith: 1, events: [{ event: { type: "tool.finished", result: noted } }] });
    merged?.afterCommit?.();
    await made.finishChild("d.txt");
    expect(await made.perform(executeTool(made.services), made.request)).toMatchObject({ mergedWith: 2 });
  });

  test("a call's changes are rolled back when it is interrupted", async () => {
    const interrupt = new AbortController();
    const made = await world(() => {
      made.changeFile("a.txt");
      interrupt.abort(new Error("The run was interrupted."));
      return "done";
    });

    await expect(executeTool(made.services).perform(made.request, made.run, interrupt.signal)).rejects.toThrow(
      "The run was interrupted.",
    );
    expect(made.tracking.pendingChanges("1")).toBeUndefined();
  });
});

describe("a tool that must not run twice", () => {
  const world = async () => {
    const execute = vi.fn(() => "done");
    const made = await effectWorld({
      tools: [aTool({ name: "deploy", needsApproval: true, afterCrash: "report", execute })],
    });
    const { id: approvalId } = await made.approvedCall("deploy", args);
    const attempt = (attempts: number) =>
      made.perform(
        executeTool(made.services),
        made.effect({ kind: "tool.execute" as const, callId: "call-1", approvalId }, { attempts }),
      );
    return { execute, attempt };
  };

  test("a tool that must not run twice is not executed again after a crash", async () => {
    const { execute, attempt } = await world();

    await expect(attempt(2)).rejects.toMatchObject({ code: "INTERRUPTED" });
    expect(execute).not.toHaveBeenCalled();
  });

  test.each([
    [{ network: "true" }, 0],
    [{ network: "false" }, 1],
  ])("the repaired arguments decide whether a call may run twice (%j)", async (given, runs) => {
    const execute = vi.fn(() => "done");
    const inputSchema = z.object({ network: z.boolean() });
    const afterCrash = ({ network }: z.infer<typeof inputSchema>) => (network ? "report" : "repeat");
    const made = await effectWorld({ tools: [aTool({ name: "run_code", inputSchema, afterCrash, execute })] });
    await made.answer("run_code", given);

    const request = { kind: "tool.execute" as const, callId: "call-1" };
    const again = made.perform(executeTool(made.services), made.effect(request, { attempts: 2 }));

    await (runs === 0 ? expect(again).rejects.toMatchObject({ code: "INTERRUPTED" }) : again);
    expect(execute).toHaveBeenCalledTimes(runs);
  });

  test.each([
    ["not executed if its approval was in the backup", 0, 0],
    ["executed if it was approved after that", 2 * 60_000, 1],
  ])("in a restored database, a call that was made before the restore is %s", async (_, decidedInMs, runs) => {
    const execute = vi.fn(() => "done");
    const deploy = aTool({ name: "deploy", needsApproval: true, afterCrash: "report", execute });
    const { store, executeOnce, approvalId } = await approved({ tools: [deploy] });
    const approval = await store.findApproval(approvalId);
    const now = Date.now();
    store.findApproval = async () => approval && { ...approval, decidedAt: now + decidedInMs };
    const restored = { commentId: 0, updatedAt: now + 60_000 + restoredPost.forMs };
    store.findPost = async (name) => (name === restoredPost.name ? restored : undefined);

    const executed = executeOnce();

    await (runs === 0 ? expect(executed).rejects.toMatchObject({ code: "INTERRUPTED" }) : executed);
    expect(execute).toHaveBeenCalledTimes(runs);
  });

  test("a tool that must not run twice is executed only while this process has the lease", async () => {
    const { execute, attempt } = await world();

    await expect(
      withLease(
        () => Promise.reject(new LeaseLostError()),
        () => attempt(1),
      ),
    ).rejects.toThrow(LeaseLostError);
    expect(execute).not.toHaveBeenCalled();
    await withLease(
      async () => {},
      () => attempt(1),
    );
    expect(execute).toHaveBeenCalledOnce();
  });
});

test("a call runs with the arguments that the approver put in place of the model's, and the model reads that", async () => {
  const preview = ({ path }: { path: string }) => `It deploys ${path}.`;
  const execute = vi.fn(() => "done");
  const tools = [aTool({ name: "deploy", needsApproval: true, preview, execute })];
  const { executeOnce, store, approvalId } = await approved({ tools });
  const approval = await store.findApproval(approvalId);
  if (!approval) throw new Error("There is no approval.");
  const changedArgs = { path: "b.txt" };
  const subject = { ...approval, preview: approval.preview, args: changedArgs, argsChanged: true };
  const changed = { ...approval, changedArgs, digest: approvalDigest(subject), note: "Not that one." };
  store.findApproval = async () => changed;

  const result = await executeOnce();

  expect(execute).toHaveBeenCalledExactlyOnceWith(changedArgs, expect.anything());
  expect(result.events).toMatchObject([
    {
      event: {
        result: {
          llmContent:
            'A person changed the arguments before approving; this ran: {"path":"b.txt"}\n@ada approved it and said: Not that one.\ndone',
        },
      },
    },
  ]);
});

test.each<[string, boolean, Error, object]>([
  [
    "was refused",
    false,
    new NotRunError("it is Friday"),
    { outcome: "refused", reason: "This was not run: it is Friday." },
  ],
  ["failed after it began", true, new Error("Boom."), { outcome: "executed", reason: "Boom." }],
  [
    "was interrupted by a crash, and may not run again",
    true,
    new NotRunError("it is Friday"),
    { outcome: "executed", reason: expect.stringMatching(/may or may not have .* not repeated: it is Friday\.$/) },
  ],
])("a call that %s is in the ledger", async (_, hasBegun, error, execution) => {
  const { store, services, effect, run, approvalId } = await approved();
  if (hasBegun) await store.beginExecution({ approvalId, callId: "call-1", runId: "r1", effectKey: "k1", now: 0 });
  const request = effect({ kind: "tool.execute" as const, callId: "call-1", approvalId });

  expect((await executeTool(services).onFailure(request, run, error)).execution).toMatchObject(execution);
});

test("a call that failed before it began is not in the ledger", async () => {
  const { services, effect, run, approvalId } = await approved();
  const request = effect({ kind: "tool.execute" as const, callId: "call-1", approvalId });

  expect(await executeTool(services).onFailure(request, run, new Error("Boom."))).not.toHaveProperty("execution");
});

test("the model reads the message and the suggestion of a call that failed", async () => {
  const made = await effectWorld({ tools: [aTool({ name: "deploy", needsApproval: true })] });
  await made.approvedCall("deploy", args);
  const error = new ToolError("It is raining.", { code: "UNAVAILABLE", suggestion: "Wait." });

  const handler = executeTool(made.services);
  const request = made.effect({ kind: "tool.execute" as const, callId: "call-1" });
  const [expected, unexpected] = [
    await handler.onFailure(request, made.run, error),
    await handler.onFailure(request, made.run, new Error("Boom.")),
  ];

  expect(expected.events).toMatchObject([{ event: { result: { llmContent: "Error: It is raining.\nWait." } } }]);
  expect(unexpected.events).toMatchObject([{ event: { result: { error: { code: "EXECUTION_ERROR" } } } }]);
});
