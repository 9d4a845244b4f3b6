import { expect, test } from "vitest";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { EffectRequest, effectVersion, interruptibleEffects, parseEffect, serializeEffect } from "#machines/effects.ts";

const throughJson = (value: unknown) => JSON.parse(JSON.stringify(value));

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
  { kind: "outcome.report" },
])("a stored $kind effect is read back unchanged", (effect) => {
  const { kind, input } = serializeEffect(effect);

  expect(parseEffect(EffectRequest, { kind, input: throughJson(input) })).toEqual(effect);
});

test("an effect of a newer release is refused with a reason", () => {
  const input = { version: effectVersion + 1, callId: "c1", dryRun: true };

  expect(() => parseEffect(EffectRequest, { kind: "tool.execute", input })).toThrow(UnreadableDataError);
  expect(() => parseEffect(EffectRequest, { kind: "tool.execute", input })).toThrow("newer release");
});

test.each([
  ["an unknown kind", { kind: "tool.undo", input: { version: effectVersion, callId: "c1" } }],
  ["an unknown field", { kind: "tool.execute", input: { version: effectVersion, callId: "c1", dryRun: true } }],
  ["a missing field", { kind: "tool.execute", input: { version: effectVersion } }],
  ["no version", { kind: "tool.execute", input: { callId: "c1" } }],
])("an effect with %s is refused", (_, effect) => {
  expect(() => parseEffect(EffectRequest, effect)).toThrow(UnreadableDataError);
  expect(() => parseEffect(EffectRequest, effect)).toThrow(`The stored effect ${effect.kind} cannot be read`);
});

test("a stop cancels work, and never what people have to read", () => {
  expect(interruptibleEffects.toSorted()).toEqual([
    "calls.review",
    "child.spawn",
    "model.call",
    "sandbox.open",
    "tool.execute",
  ]);
});
