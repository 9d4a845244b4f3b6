import { expect, test } from "vitest";
import { askToolset } from "#toolsets/ask/ask-toolset.ts";
import { toolsetWorld } from "../../support/toolset-world.ts";

test("a question is answered by a person, not by the tool", async () => {
  const { tool, asks } = await toolsetWorld(askToolset);

  expect(tool("ask_user").answeredBy).toEqual({ kind: "person" });
  expect(tool("ask_user").execute).toBeUndefined();
  expect(await asks("ask_user", { question: "Which one?", options: ["a", "b"] })).toBe(false);
});
