import { describe, expect, test } from "vitest";
import { sharedCustomTools } from "../support/custom-tools-world.ts";

const unruly = `import { z } from "zod";
const nothing = z.looseObject({});
const tool = (name, execute, more = {}) => ({ name, description: name, inputSchema: nothing, needsApproval: false, execute, ...more });
export const steady = tool("steady", () => "still here");
export const loop = tool("loop", () => { for (;;); });
export const hang = tool("hang", () => new Promise(() => {}));
export const grow = tool("grow", () => { const held = []; for (;;) held.push(new Array(1e6).fill(0.5)); });
export const swell = tool("swell", () => { const held = []; for (;;) held.push(Buffer.alloc(5e7, 1)); });
export const huge = tool("huge", () => "x".repeat(4e7));
export const stuck = tool("stuck", () => "ran", { needsApproval: () => { for (;;); } });
`;
const tools = [...unruly.matchAll(/export const (\w+) = tool/g)].map((match) => match[1] ?? "");

describe("a custom tool that uses up time or memory:", () => {
  const patient = sharedCustomTools(unruly, { tools, timeout: 20 });
  const impatient = sharedCustomTools(unruly, { tools, timeout: 1 });

  test.each([
    ["loop", "TIMEOUT", /did not finish within 1 s/],
    ["hang", "TIMEOUT", /did not finish within 1 s/],
    ["grow", "EXECUTION_ERROR", /too much memory/],
    ["swell", "EXECUTION_ERROR", /process of|allocat/i],
    ["huge", "EXECUTION_ERROR", /sent a line that is too long/],
  ])("%s ends in a clear error, and the next call gets a new process", async (tool, code, message) => {
    const { run } = code === "TIMEOUT" ? impatient() : patient();

    const { error } = await run(tool);

    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
    expect(await run("steady")).toMatchObject({ llmContent: "still here" });
  });

  test("an approval rule that hangs leaves the decision to a person", async () => {
    const { review } = impatient();

    expect(await review("stuck")).toMatchObject({
      kind: "ask",
      reason: expect.stringContaining("did not finish within"),
    });
  });
});
