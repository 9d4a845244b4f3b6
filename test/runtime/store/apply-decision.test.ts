import { describe, expect, test } from "vitest";
import type { Approval } from "#domain/approval.ts";
import {
  applyDecision,
  applyExecution,
  applyRevocation,
  executionDraft,
  expire,
} from "#runtime/store/apply-decision.ts";
import type { Decision, Execution, Revocation } from "#runtime/store/store.ts";
import { sampleApproval } from "../../support/store-samples.ts";

const execution: Execution = { approvalId: "a1", callId: "call-a1", runId: "r1", effectKey: "k1", now: 4_999 };
const begin = (approval: Partial<Approval>, changes: Partial<Execution> = {}) =>
  applyExecution(sampleApproval("r1", "a1", approval), { ...execution, ...changes });
const session = { remember: "session" as const };

test.each<[string, Partial<Approval>, Partial<Execution>]>([
  ["its own call", { status: "approved" }, {}],
  ["its own call after its time to answer", { status: "approved" }, { now: 9_000 }],
  ["another call, for the session", { status: "approved", ...session }, { callId: "call-b" }],
  ["a further call, for the session", { status: "used", ...session, begun: ["k0"] }, { callId: "call-b" }],
])("an approval is used for %s", (_, approval, changes) => {
  expect(begin(approval, changes)).toMatchObject({ status: "used", begun: [...(approval.begun ?? []), "k1"] });
});

test("an execution that was interrupted by a crash begins again, even if the approval has changed", () => {
  for (const status of ["used", "revoked"] as const) {
    expect(begin({ status, begun: ["k1"] })).toMatchObject({ status, begun: ["k1"] });
  }
});

test.each<[string, Partial<Approval>, Partial<Execution>]>([
  ["another call", { status: "approved" }, { callId: "call-b" }],
  ["another run", { status: "approved" }, { runId: "r2" }],
  ["another run, even for the session", { status: "used", ...session }, { runId: "r2" }],
  ["a second call", { status: "used", begun: ["k0"] }, {}],
  ["a call of the session after its time", { status: "used", ...session }, { callId: "call-b", now: 5_000 }],
  ["a pending request", { status: "pending", ...session }, {}],
  ["a denied request", { status: "denied", ...session }, {}],
  ["an expired request", { status: "expired", ...session }, {}],
  ["a withdrawn request", { status: "withdrawn", ...session }, {}],
  ["a revoked approval", { status: "revoked", ...session }, {}],
])("an approval does not count for %s", (_, approval, changes) => {
  expect(begin(approval, changes)).toBeUndefined();
});

test("no approval is not an approval", () => {
  expect(applyExecution(undefined, execution)).toBeUndefined();
});

const full = { by: "Mia", byId: 3, via: "page" as const, note: "go on" };
const decision: Decision = { approvalId: "a1", decision: "approved", by: "Mia", now: 2_000 };
const decide = (approval: Partial<Approval>, changes: Partial<Decision> = {}) =>
  applyDecision(sampleApproval("r1", "a1", approval), { ...decision, ...changes });

describe("an answer", () => {
  test.each([true, false])(
    "an answer is stored with who has approved and who still has to, even if it is the first of several: %s",
    (isPartial) => {
      const quorums = [{ who: "Anyone with write access", required: isPartial ? 2 : 1, by: ["Mia"] }];

      expect(decide({}, { quorums, isPartial }).changed).toMatchObject({ quorums, answers: [{ by: "Mia" }] });
      expect(decide({ quorums }, { isPartial }).changed).toMatchObject({ quorums });
    },
  );

  test("an answer is stored with who gave it, where and why, and is appended to the run", () => {
    expect(decide({}, { ...full, remember: "session" })).toMatchObject({
      result: { kind: "decided" },
      changed: {
        ...{ status: "approved", decidedBy: "Mia", decidedById: 3, decidedAt: 2_000, via: "page", note: "go on" },
        ...{ remember: "session", answers: [{ ...full, at: 2_000 }] },
      },
      event: { type: "approval.granted", approvalId: "a1", callId: "call-a1", by: "Mia", byId: 3, via: "page" },
      ledger: { kind: "approved", at: 2_000, by: "Mia", byId: 3, via: "page" },
    });
  });

  test("an answer has only the parts that are known", () => {
    const { changed, event } = decide({});

    expect(changed).toStrictEqual({
      ...sampleApproval("r1", "a1"),
      ...{ status: "approved", decidedBy: "Mia", decidedAt: 2_000, answers: [{ by: "Mia", at: 2_000 }] },
    });
    expect(event).toStrictEqual({ type: "approval.granted", approvalId: "a1", callId: "call-a1", by: "Mia" });
  });

  test("an answer that changes the arguments binds the approval to them", () => {
    expect(decide({}, { changed: { args: { path: "b" }, digest: "e".repeat(64) } })).toMatchObject({
      changed: { changedArgs: { path: "b" }, digest: "e".repeat(64) },
      event: { args: { path: "b" } },
    });
  });

  test("an answer that denies is not an approval, and tells the worker the reason", () => {
    const { changed, event, ledger } = decide({}, { ...full, decision: "denied" });

    expect(changed).toMatchObject({ status: "denied", decidedBy: "Mia", note: "go on" });
    expect(changed).not.toHaveProperty("answers");
    expect(event).toMatchObject({ type: "approval.denied", by: "Mia", reason: "go on" });
    expect(ledger).toMatchObject({ kind: "denied" });
    expect(decide({}, { decision: "denied" }).event).not.toHaveProperty("reason");
  });

  test("an answer of one of several people leaves the request pending, and says who has answered", () => {
    const quorums = [{ who: "Anyone", required: 2, by: ["ada", "Mia"] }];
    const earlier = { answers: [{ by: "ada", at: 1_500 }], revision: 1 };
    const { result, changed, event, ledger } = decide(earlier, { isPartial: true, revision: 1, quorums });

    expect(result).toEqual({ kind: "recorded", approval: changed });
    expect(changed).toMatchObject({ status: "pending", revision: 2, quorums });
    expect(changed?.answers?.map(({ by }) => by)).toEqual(["ada", "Mia"]);
    expect(event).toBeUndefined();
    expect(ledger).toMatchObject({ kind: "approved", by: "Mia" });
  });

  test("an answer to an approval that does not exist changes nothing", () => {
    expect(applyDecision(undefined, decision)).toEqual({ result: { kind: "unknown" } });
  });

  test.each(["approved", "denied", "expired", "withdrawn", "used", "revoked"] as const)(
    "an answer to a request that is %s changes nothing",
    (status) => {
      expect(decide({ status })).toEqual({
        result: { kind: "settled", approval: sampleApproval("r1", "a1", { status }) },
      });
    },
  );

  test("an answer that is given at the end of its time or later is too late", () => {
    expect(decide({}, { now: 4_999 }).result.kind).toBe("decided");
    for (const now of [5_000, 5_001]) {
      const expired = sampleApproval("r1", "a1", { status: "expired" });
      expect(decide({}, { now })).toEqual({ result: { kind: "settled", approval: expired } });
    }
  });

  test("an answer that was evaluated before someone else answered is evaluated again, unless it denies", () => {
    const stale = { result: { kind: "changed", approval: sampleApproval("r1", "a1", { revision: 1 }) } };

    expect(decide({ revision: 1 }, { revision: 0 })).toEqual(stale);
    expect(decide({ revision: 1 }, { revision: 1 }).result.kind).toBe("decided");
    expect(decide({ revision: 1 }, { revision: 0, decision: "denied" }).result.kind).toBe("decided");
    expect(decide({}, { revision: 0 }).result.kind).toBe("decided");
  });
});

test("an approval that expires says so to its run and in the ledger, at the end of its time", () => {
  expect(expire(sampleApproval("r1", "a1"))).toMatchObject({
    changed: { id: "a1", status: "expired" },
    event: { type: "approval.expired", approvalId: "a1", callId: "call-a1" },
    ledger: { kind: "expired", at: 5_000, approvalId: "a1" },
  });
});

test("the ledger says when a call was executed, with its commit, or why it was refused", () => {
  const approval = sampleApproval("r1", "a1");

  expect(executionDraft(approval, { approvalId: "a1", outcome: "executed", commit: "c1" }, 3_000)).toMatchObject({
    ...{ kind: "executed", at: 3_000, commit: "c1", approvalId: "a1" },
  });
  expect(executionDraft(approval, { approvalId: "a1", outcome: "refused", reason: "No." }, 3_000)).toMatchObject({
    ...{ kind: "refused", at: 3_000, reason: "No." },
  });
});

const revocation: Revocation = { approvalId: "a1", by: "mia", now: 3_000 };
const revoke = (approval: Partial<Approval>, changes: Partial<Revocation> = {}) =>
  applyRevocation(sampleApproval("r1", "a1", approval), { ...revocation, ...changes });

describe("a revocation", () => {
  test("a revocation of an approval is stored with who did it, where and why", () => {
    const { result, changed, ledger } = revoke({ status: "approved" }, full);

    expect(changed).toMatchObject({ status: "revoked", revoked: { ...full, at: 3_000 } });
    expect(result).toEqual({ kind: "revoked", approval: changed });
    expect(ledger).toMatchObject({ kind: "revoked", at: 3_000, by: "Mia", byId: 3, via: "page" });
    expect(revoke({ status: "approved" }).changed?.revoked).toStrictEqual({ by: "mia", at: 3_000 });
  });

  test("a revocation of an approval for the session that was used ends the session, and does not undo the use", () => {
    expect(revoke({ status: "used", ...session }).changed).toMatchObject({
      status: "used",
      remember: "none",
      revoked: { by: "mia" },
    });
  });

  test("a revocation of one of several answers takes that answer alone, compared by account where one is known", () => {
    const answers = [
      { by: "ada", byId: 1, at: 1 },
      { by: "Mia", byId: 3, at: 2 },
    ];
    const quorums = [{ who: "Anyone", required: 3, by: ["ada", "Mia"] }];
    const left = (changes: Partial<Revocation>) => revoke({ answers, quorums, revision: 2 }, changes).changed;

    expect(left({})).toMatchObject({ status: "pending", answers: [{ by: "ada" }], revision: 3 });
    expect(left({})?.quorums).toEqual([{ who: "Anyone", required: 3, by: ["ada"] }]);
    expect(left({ by: "renamed", byId: 1 })?.answers).toMatchObject([{ by: "Mia" }]);
    expect(left({ by: "mia", byId: 99 })).toBeUndefined();
    expect(left({ by: "tom" })).toBeUndefined();
  });

  test.each<Partial<Approval>>([
    { status: "pending" },
    { status: "used" },
    { status: "denied" },
    { status: "expired" },
    { status: "withdrawn" },
    { status: "revoked" },
  ])("a revocation of what cannot be revoked changes nothing: %j", (approval) => {
    expect(revoke(approval)).toEqual({
      result: { kind: "settled", approval: sampleApproval("r1", "a1", approval) },
    });
  });

  test("a revocation of no approval is unknown", () => {
    expect(applyRevocation(undefined, revocation)).toEqual({ result: { kind: "unknown" } });
  });
});
