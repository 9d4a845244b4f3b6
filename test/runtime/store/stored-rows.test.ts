import { expect, test } from "vitest";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { type EffectRequest, effectVersion } from "#machines/effects.ts";
import {
  readEffect,
  readRun,
  serializeRecord,
  serializeRequest,
  serializeSnapshot,
} from "#runtime/store/stored-rows.ts";
import { sampleSnapshot, sampleSpec } from "../../support/store-samples.ts";

/** Reads an effect of run r1 as the databases do. */
const read = ({ kind, input }: { kind: string; input: object | string }) => {
  const text = typeof input === "string" ? input : JSON.stringify(input);
  return readEffect({ key: "k", kind, input: text, due_at: 0, attempts: 1 }, { runId: "r1", queue: "work" }).request;
};

test.each<EffectRequest>([
  { kind: "sandbox.open" },
  { kind: "model.call" },
  { kind: "calls.review" },
  { kind: "tool.execute", callId: "c1", approvalId: "k7" },
  { kind: "approval.post", approvalId: "k7" },
  { kind: "approvals.close" },
  { kind: "question.post", callId: "c1" },
  { kind: "question.close", callId: "c1" },
  { kind: "budget.post" },
  { kind: "child.spawn", callId: "c1", approvalId: "k7" },
  { kind: "child.spawn", callId: "c1" },
  { kind: "children.stop" },
  { kind: "answer.post" },
  { kind: "answer.post", step: 2 },
  { kind: "outcome.report" },
])("a stored $kind effect is read back unchanged", (effect) => {
  expect(read(serializeRequest(effect))).toEqual(effect);
});

test("an effect of a newer release is refused with a reason", () => {
  const input = { version: effectVersion + 1, callId: "c1", dryRun: true };

  expect(() => read({ kind: "tool.execute", input })).toThrow(UnreadableDataError);
  expect(() => read({ kind: "tool.execute", input })).toThrow("newer release");
});

test.each([
  ["an unknown kind", { kind: "tool.undo", input: { version: effectVersion, callId: "c1" } }],
  ["an unknown field", { kind: "tool.execute", input: { version: effectVersion, callId: "c1", dryRun: true } }],
  ["a missing field", { kind: "tool.execute", input: { version: effectVersion } }],
  ["no version", { kind: "tool.execute", input: { callId: "c1" } }],
])("an effect with %s is refused", (_, effect) => {
  expect(() => read(effect)).toThrow(UnreadableDataError);
  expect(() => read(effect)).toThrow(`The stored effect ${effect.kind} cannot be read`);
});

test("a snapshot that this process stored is not parsed again, but one that another process changed is", () => {
  const snapshot = sampleSnapshot("idle");
  const text = serializeSnapshot(snapshot);
  const readAs = (snapshot: string) =>
    readRun({
      ...{ id: "r1", root_id: "r1", status: "active", version: 1, change_sets: 0, updated_at: 1, log_removed_at: null },
      ...{ repository_id: null, installation_id: null, owner: null, repo: null },
      spec: serializeRecord(sampleSpec("r1")),
      snapshot,
    });

  const own = readAs(text);
  const changed = readAs(text.replace('"steps":0', '"steps":1'));
  const damaged = readAs(text.replace('"steps":0', '"steps":"no"'));

  expect(own.unreadable ? undefined : own.snapshot).toBe(snapshot);
  expect(changed.unreadable ? undefined : changed.snapshot).toEqual({
    ...snapshot,
    context: { ...snapshot.context, steps: 1 },
  });
  expect(damaged.unreadable?.message).toContain("context.steps");
});
