import { expect, test } from "vitest";
import type { Approval } from "#domain/approval.ts";
import { applyExecution } from "#runtime/store/apply-decision.ts";
import type { Execution } from "#runtime/store/store.ts";
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

test("an execution that was interrupted by a crash begins again, whatever happened to the approval", () => {
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
