import { expect, test } from "vitest";
import { interruptibleEffects } from "#machines/effects.ts";

test("a stop cancels work, and never what people have to read", () => {
  expect(interruptibleEffects.toSorted()).toEqual([
    "calls.review",
    "child.spawn",
    "model.call",
    "sandbox.open",
    "tool.execute",
  ]);
});
