import { describe, expect, test, vi } from "vitest";
import { settingsPath } from "#config/repository-settings.ts";
import type { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { RunEvent } from "#domain/events.ts";
import { textPreview } from "#domain/preview.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { checkApprover, decideApprovals, pendingApprovals, revokeApproval } from "#runtime/service/decide-approvals.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { sampleApproval, sampleEffect, sampleRun, sampleSnapshot, sampleSpec } from "../../support/store-samples.ts";

const { origin } = sampleSpec("r1");
const thread = { ...origin, thread: 7 };
const approve = { by: "mia", approve: true, target: undefined };

/** A run with these pending approvals, posted as comments 11, 12, … */
async function approvalWorld(
  ids: string[],
  {
    settings,
    change = {},
    isPosted = true,
  }: { settings?: string; change?: Partial<Approval>; isPosted?: boolean } = {},
) {
  const store = openMemoryStore();
  const effects = ids.map((id) => sampleEffect("r1", id));
  await store.ingest({ run: sampleRun("r1", effects), events: [] });
  for (const [index, id] of ids.entries()) {
    await store.completeEffect({
      runId: "r1",
      key: id,
      approvals: [sampleApproval("r1", id, change)],
      ...(isPosted && { posts: [{ name: `approval/${id}`, commentId: 11 + index }] }),
    });
  }
  const scheduler = { wake: vi.fn() };
  const options = {
    store,
    scheduler,
    openGitHub: () => ({
      readFile: async (path: string) => (path === settingsPath ? settings : undefined),
      getPermission: async () => "write",
      findAccount: async () => undefined,
      isTeamMember: async () => false,
    }),
    now: () => 2_000,
  } as unknown as Parameters<typeof decideApprovals>[0];
  const decide = (decision: Partial<Parameters<typeof decideApprovals>[2]>) =>
    decideApprovals(options, thread, { ...approve, ...decision });
  const events = async () => (await store.inbox("r1")).map(({ event }) => event);
  return { store, scheduler, options, decide, events };
}

test("a decision is stored and appended to its run, which continues", async () => {
  const { decide, store, scheduler, events } = await approvalWorld(["a1"]);

  const decided = await decide({ note: "go on\u200b", remember: "session" });

  expect(decided).toMatchObject([
    { id: "a1", status: "approved", decidedBy: "mia", note: "go on", remember: "session" },
  ]);
  expect(await store.findApproval("a1")).toEqual(decided[0]);
  expect(await events()).toMatchObject([{ type: "approval.granted", approvalId: "a1", by: "mia" }]);
  expect(scheduler.wake).toHaveBeenCalledExactlyOnceWith("r1");
});

test("a delivery that comes again decides nothing, even when more requests are pending by then", async () => {
  const { decide, store, events } = await approvalWorld(["a1"]);
  await decide({ target: "all", deliveryId: "d1" });
  await store.ingest({ events: [], effects: [sampleEffect("r1", "a2")] });
  await store.completeEffect({ runId: "r1", key: "a2", approvals: [sampleApproval("r1", "a2")] });

  expect(await decide({ target: "all", deliveryId: "d1" })).toEqual([]);

  expect(await store.findApproval("a2")).toMatchObject({ status: "pending" });
  expect(await events()).toHaveLength(1);
});

test("a delivery that was interrupted after some decisions continues with the others", async () => {
  const { decide, store, events } = await approvalWorld(["a1", "a2"]);
  const { decideApproval } = store;
  store.decideApproval = async (decision) => {
    if (decision.approvalId === "a2") throw new Error("The disk is full.");
    return decideApproval.call(store, decision);
  };
  await expect(decide({ target: "all", deliveryId: "d1" })).rejects.toThrow("The disk is full.");
  store.decideApproval = decideApproval;

  await decide({ target: "all", deliveryId: "d1" });

  expect((await events()).map((event) => "approvalId" in event && event.approvalId)).toEqual(["a1", "a2"]);
});

test("a delivery that was interrupted after its last decision is done, and does not look for open requests again", async () => {
  const { decide, store, events } = await approvalWorld(["a1"]);
  vi.spyOn(store, "ingest").mockRejectedValueOnce(new Error("The disk is full."));
  await expect(decide({ deliveryId: "d1" })).rejects.toThrow("The disk is full.");

  expect(await decide({ deliveryId: "d1" })).toEqual([]);

  expect(await events()).toMatchObject([{ type: "approval.granted", approvalId: "a1" }]);
});

describe("the target", () => {
  test.each([
    ["the id of no approval", { target: "zz" }, "Request zz not found in this thread."],
    ["nothing, with several pending", {}, "Several requests are waiting."],
    ["changed arguments for several", { target: "all", changedArgs: {} }, "apply to one approval only"],
    ["an id, in a comment older than the request", { target: "a1", commentId: 10 }, "was posted after your comment"],
    ["all, in a comment older than the requests", { target: "all", commentId: 10 }, "was posted after your comment"],
  ])("an answer whose target is %s decides nothing", async (_, decision, message) => {
    const { decide, events } = await approvalWorld(["a1", "a2"]);

    await expect(decide(decision)).rejects.toThrow(message);
    expect(await events()).toEqual([]);
  });

  test("an id in capital letters is found", async () => {
    const { decide } = await approvalWorld(["a1", "a2"]);

    expect(await decide({ target: "A2" })).toMatchObject([{ id: "a2" }]);
  });

  test('"all" in a comment between two requests means the first one', async () => {
    const { decide, options } = await approvalWorld(["a1", "a2"]);

    expect(await decide({ target: "all", commentId: 12 })).toMatchObject([{ id: "a1" }]);
    expect(await pendingApprovals(options, thread)).toMatchObject([{ id: "a2" }]);
  });
});

describe("the repository's settings", () => {
  test.each([{ target: "a1" }, { target: "all" }, {}])(
    "the repository's settings apply to an approval of $target",
    async (decision) => {
      const { decide, events } = await approvalWorld(["a1"], { settings: "second_person: true" });

      await expect(decide({ ...decision, by: "ada" })).rejects.toThrow("a second person");
      expect(await events()).toEqual([]);
    },
  );

  test("the repository's settings do not apply to a denial", async () => {
    const { decide } = await approvalWorld(["a1"], { settings: "second_person: true" });

    expect(await decide({ by: "ada", approve: false, note: "no" })).toMatchObject([{ status: "denied", note: "no" }]);
  });
});

test("an approval whose preview is not complete is not remembered", async () => {
  const change = {
    path: "a.bin",
    kind: "added" as const,
    newMode: "100644" as const,
    newBlob: "b".repeat(40),
    size: 1,
  };
  const preview = { sections: [{ kind: "hidden-file" as const, change, reason: "binary" as const }] };
  const { decide } = await approvalWorld(["a1"], { change: { preview } });

  await expect(decide({ remember: "session" })).rejects.toThrow("can only be approved once");
  expect(await decide({})).toHaveLength(1);
});

test("changed arguments are bound to the preview by a digest of their own", async () => {
  const { decide, store } = await approvalWorld(["a1"], { change: { preview: textPreview("It writes.") } });
  const before = await store.findApproval("a1");

  const [decided] = await decide({ changedArgs: { path: "docs.md" } });

  expect(decided?.changedArgs).toEqual({ path: "docs.md" });
  expect(decided?.digest).not.toBe(before?.digest);
});

test.each([
  ["approved", "a1 was already approved by @ada."],
  ["used", "a1 was already approved by @ada."],
  ["denied", "a1 was already denied by @ada."],
  ["expired", "a1 expired before anyone answered."],
  ["withdrawn", "a1 is no longer needed: its run was paused or has ended."],
  ["revoked", "a1 was revoked by @tom."],
] as const)("a request that is %s already is not decided again", async (status, message) => {
  const revoked = { by: "tom", at: 1 };
  const { decide, events } = await approvalWorld(["a1"], { change: { status, decidedBy: "ada", revoked } });

  await expect(decide({ target: "a1" })).rejects.toThrow(message);
  expect(await events()).toEqual([]);
});

describe("where two people have to approve", () => {
  const settings = "approvals: [{ required: 2, exclude: nobody }]";

  test("the first answer is recorded, the request is shown again, and the second one decides", async () => {
    const { decide, events, store } = await approvalWorld(["a1"], { settings });

    expect(await decide({ target: "a1" })).toMatchObject([{ status: "pending", revision: 1 }]);
    expect(await events()).toEqual([]);
    expect(await store.claimEffect("r1", "thread", 2_000)).toMatchObject({
      request: { kind: "approval.post", approvalId: "a1" },
    });
    expect(await decide({ target: "a1", by: "grace" })).toMatchObject([{ status: "approved" }]);
    expect(await events()).toHaveLength(1);
  });

  test("one person counts once", async () => {
    const { decide, events } = await approvalWorld(["a1"], { settings });
    await decide({ target: "a1" });

    await expect(decide({ target: "a1", by: "Mia" })).rejects.toThrow("You have approved a1 already.");
    expect(await events()).toEqual([]);
  });

  test("the second of two people cannot change the arguments that the first one approved", async () => {
    const { decide, store } = await approvalWorld(["a1"], { settings });
    await decide({ target: "a1" });

    await expect(decide({ target: "a1", by: "grace", changedArgs: { path: "docs.md" } })).rejects.toThrow(
      "The arguments of a1 cannot be changed here",
    );
    expect(await store.findApproval("a1")).toMatchObject({ status: "pending" });
  });

  test("the second of two people cannot approve later calls, which the first one did not", async () => {
    const { decide, store } = await approvalWorld(["a1"], { settings });
    await decide({ target: "a1" });

    await expect(decide({ target: "a1", by: "grace", remember: "session" })).rejects.toThrow("leave out session");
    expect(await store.findApproval("a1")).toMatchObject({ status: "pending" });
  });

  test("simultaneous answers of two people decide once", async () => {
    const { decide, events } = await approvalWorld(["a1"], { settings });

    const decided = await Promise.all(["mia", "grace"].map((by) => decide({ target: "a1", by })));

    expect(decided.flat().map(({ status }) => status)).toEqual(expect.arrayContaining(["pending", "approved"]));
    expect(await events()).toHaveLength(1);
  });

  test.each([
    [{ changedArgs: { path: "docs.md" } }, "The arguments of a1 cannot be changed here"],
    [{ remember: "session" as const }, "leave out session"],
  ])("where two people have to approve, %j is refused", async (decision, message) => {
    const { decide, store } = await approvalWorld(["a1"], { settings });

    await expect(decide({ target: "a1", ...decision })).rejects.toThrow(message);
    expect(await store.findApproval("a1")).toMatchObject({ status: "pending" });
  });
});

describe("where people who wrote input may not approve", () => {
  const settings = "approvals: [{ exclude: authors }]";
  const mia = { by: "mia" };

  test("nobody can change the arguments, which would be input to the run", async () => {
    const { decide, events } = await approvalWorld(["a1"], { settings });

    await expect(decide({ target: "a1", changedArgs: { path: "docs.md" } })).rejects.toThrow(
      "The arguments of a1 cannot be changed here",
    );
    expect(await events()).toEqual([]);
  });
  const answered = { approvalId: "a0", callId: "c0", ...mia };

  test.each<RunEvent>([
    { type: "message.received", kind: "comment", text: "Do it.", ...mia },
    { type: "message.received", kind: "context", text: "Read it.", by: "ada", authors: [{ login: "mia" }] },
    { type: "question.answered", callId: "c0", text: "Yes.", ...mia },
    { type: "approval.granted", ...answered, args: {} },
    { type: "approval.denied", ...answered, reason: "Use another file." },
  ])("the author of $type does not count: %j", async (event) => {
    const { decide, store } = await approvalWorld(["a1"], { settings });
    await store.ingest({ events: [{ runId: "r1", event }] });

    await expect(decide({ target: "a1" })).rejects.toThrow("@mia wrote input to this run");
    expect(await store.findApproval("a1")).toMatchObject({ status: "pending" });
  });

  test("someone who wrote input to a child run does not count", async () => {
    const { decide, store } = await approvalWorld(["a1"], { settings });
    await store.ingest({
      run: sampleRun("r2", [], { rootId: "r1", parentId: "r1", parentCallId: "c1" }),
      events: [],
    });
    await store.ingest({
      events: [{ runId: "r2", event: { type: "message.received", kind: "comment", text: "Do it.", ...mia } }],
    });

    await expect(decide({ target: "a1" })).rejects.toThrow("@mia wrote input to this run");
  });

  test.each<RunEvent>([
    { type: "message.received", kind: "prompt", text: "Do it.", ...mia },
    { type: "message.received", kind: "comment", text: "Do it.", by: "grace" },
    { type: "approval.granted", ...answered },
    { type: "approval.denied", ...answered },
    { type: "run.stop", ...mia },
    { type: "timer.due", timer: "deadline" },
  ])("%j is not input that someone wrote", async (event) => {
    const { decide, store } = await approvalWorld(["a1"], { settings });
    await store.ingest({ events: [{ runId: "r1", event }] });

    expect(await decide({ target: "a1" })).toMatchObject([{ status: "approved" }]);
  });
});

test("a single approval of a call is not the last one of another rule that its giver does not meet", async () => {
  const settings = "approvals: [{ people: [mia] }, { people: [grace] }]";
  const { decide, events } = await approvalWorld(["a1"], { settings });

  expect(await decide({ target: "a1" })).toMatchObject([
    {
      status: "pending",
      quorums: [
        { who: "@mia", by: ["mia"] },
        { who: "@grace", by: [] },
      ],
    },
  ]);
  expect(await events()).toEqual([]);
  expect(await decide({ target: "a1", by: "grace" })).toMatchObject([{ status: "approved" }]);
});

test("someone who may give none of the missing approvals is told why", async () => {
  const settings = "approvals: [{ people: [mia] }, { people: [grace] }, { people: [grace, tom], required: 2 }]";
  const { decide, store } = await approvalWorld(["a1"], { settings });
  await decide({ target: "a1" });

  await expect(decide({ target: "a1", by: "eve" })).rejects.toThrow("@eve may not approve here. Approvers: @grace.");
  expect(await store.findApproval("a1")).toMatchObject({ revision: 1 });
});

test("requests that this version cannot read are not decided, and other failures are not taken for that", async () => {
  const { decide, options, store } = await approvalWorld(["a1"]);
  const approvalsOf = vi.spyOn(store, "approvalsOf");

  approvalsOf.mockRejectedValueOnce(new UnreadableDataError("A newer version wrote the approval."));
  await expect(decide({ target: "a1" })).rejects.toThrow(new UserError("A newer version wrote the approval."));
  const failure = new Error("The disk is full.");
  approvalsOf.mockRejectedValueOnce(failure);
  await expect(pendingApprovals(options, thread)).rejects.toBe(failure);
});

test("an answer to a request that has been removed decides nothing", async () => {
  const { decide, store, events } = await approvalWorld(["a1"]);
  vi.spyOn(store, "findApproval").mockResolvedValueOnce(undefined);

  await expect(decide({ target: "a1" })).rejects.toThrow("Request a1 not found in this thread.");
  expect(await events()).toEqual([]);
});

test("of several requests, those that have been decided in the meantime are skipped", async () => {
  const { decide, store } = await approvalWorld(["a1", "a2"]);
  const decideApproval = vi.spyOn(store, "decideApproval");
  decideApproval.mockResolvedValueOnce({ kind: "settled", approval: sampleApproval("r1", "a1", { status: "denied" }) });

  expect(await decide({ target: "all" })).toMatchObject([{ id: "a2" }]);
  decideApproval.mockRestore();
});

test("someone whom no rule lets approve is told why", async () => {
  const { decide, store } = await approvalWorld(["a1"], { settings: "approvers: [grace]" });

  await expect(decide({ target: "a1" })).rejects.toThrow("@mia may not approve here. Approvers: @grace.");
  expect(await store.findApproval("a1")).not.toHaveProperty("answers");
});

test.each([
  ["approvers: [grace]", "mia", "@mia may not approve here"],
  ["second_person: true", "ada", "a second person"],
  ["approvers: [mia]", "mia", undefined],
  ["approvals: [{ tools: [deploy], people: [grace] }]", "mia", undefined],
])(
  "with the settings %j, what all calls of a run require is asked of %s before anything else",
  async (settings, login, problem) => {
    const { options } = await approvalWorld(["a1"], { settings });
    const checked = checkApprover(options, thread, { rootIds: ["r1", "r1"], person: { login } });

    if (problem === undefined) expect(await checked).toBeUndefined();
    else await expect(checked).rejects.toThrow(problem);
  },
);

test("a decision without an open request is answered with a comment that says so", async () => {
  const { decide } = await approvalWorld([]);

  await expect(decide({})).rejects.toThrow("Nothing in this thread is waiting for approval.");
  await expect(decide({ target: "zz" })).rejects.toThrow(
    "Request zz not found in this thread. Nothing is waiting for approval.",
  );
});

test("an approval without a request, where a run has used up its cost limit, is answered with how to raise it", async () => {
  const { decide, store } = await approvalWorld([]);
  await store.ingest({ run: { ...sampleRun("r2"), snapshot: sampleSnapshot("awaitingBudget") }, events: [] });

  await expect(decide({})).rejects.toThrow(
    "Nothing in this thread is waiting for approval. fixer has used up its cost limit: `/approve +$2` raises it.",
  );
});

test("if a person may not approve one of the requests, none is decided", async () => {
  const settings = "approvals: [{ tools: [deploy], people: [grace] }]";
  const { decide, store, events } = await approvalWorld(["a1"], { settings });
  await store.ingest({ events: [], effects: [sampleEffect("r1", "a2")] });
  await store.completeEffect({
    runId: "r1",
    key: "a2",
    approvals: [sampleApproval("r1", "a2", { tool: "deploy" })],
    posts: [{ name: "approval/a2", commentId: 12 }],
  });

  await expect(decide({ target: "all" })).rejects.toThrow("@mia may not approve here.");
  expect(await events()).toEqual([]);
});

test("a request whose comment is not stored yet is answered later", async () => {
  const { decide, events } = await approvalWorld(["a1"], { isPosted: false });

  await expect(decide({ target: "a1", commentId: 12 })).rejects.toThrow("The request a1 is still being posted.");
  expect(await events()).toEqual([]);
});

describe("a revocation", () => {
  const revocation = { target: "A1", by: "mia", note: "wait\u200b" };

  test("a revocation of an unused approval is stored, and shown in the request", async () => {
    const { decide, options, store, scheduler } = await approvalWorld(["a1"]);
    await decide({ target: "a1" });

    expect(await revokeApproval(options, thread, revocation)).toMatchObject({
      status: "revoked",
      revoked: { by: "mia", note: "wait" },
    });
    expect(await store.claimEffect("r1", "thread", 2_000)).toMatchObject({ request: { kind: "approval.post" } });
    expect(scheduler.wake).toHaveBeenLastCalledWith("r1");
  });

  test.each([
    ["pending", "a1 has not been approved."],
    ["used", "It is too late to revoke a1"],
    ["revoked", "a1 has been revoked already."],
    ["denied", "a1 was denied by @ada"],
    ["expired", "a1 expired"],
    ["withdrawn", "a1 was withdrawn"],
  ] as const)("a revocation of a request that is %s is refused", async (status, message) => {
    const { options } = await approvalWorld(["a1"], { change: { status, decidedBy: "ada" } });

    await expect(revokeApproval(options, thread, revocation)).rejects.toThrow(message);
  });

  test("a revocation of no approval of this thread is refused", async () => {
    const { options } = await approvalWorld(["a1"]);

    await expect(revokeApproval(options, thread, { ...revocation, target: "zz" })).rejects.toThrow(
      "Request zz not found in this thread.",
    );
  });
});
