import { expect, test } from "vitest";
import { createTraceFormatter } from "#terminal/trace-formatter.ts";
import { aTool, deploy, embedded } from "../support/embed-world.ts";
import { pseudoTerminal } from "../support/terminal-world.ts";

async function trace(level: "normal" | "debug") {
  const { output, text } = pseudoTerminal();
  const { runtime } = await embedded([deploy(), { calls: [{ name: "nothing" }] }, "Done."], {
    tools: [aTool({ needsApproval: true })],
    approvalMode: "approve_all",
    onEvent: createTraceFormatter({ output, level }),
  });
  await runtime.run("Go");
  return text()
    .replaceAll(/^( *)\d\d:\d\d:\d\d /gm, "$1")
    .replaceAll(/\d+ ms/g, "0 ms");
}

test("a run is traced line by line", async () => {
  expect(await trace("normal")).toBe(
    [
      "▶ helper with scripted:model",
      "→ [1] 2 messages, 1 tools",
      "← [1] calls deploy (10 + 20 tokens)",
      "? deploy: helper wants to call deploy.",
      "  approved",
      '● deploy (1 of 1) {"to":"here"}',
      "✓ deploy 0 ms: deployed to here",
      "→ [2] 4 messages, 1 tools",
      "← [2] calls nothing (10 + 20 tokens)",
      "● nothing (1 of 1) {}",
      "✗ nothing: Unknown tool: nothing.",
      "→ [3] 6 messages, 1 tools",
      "← [3] Done. (10 + 20 tokens)",
      "■ 3 iterations, 2 tool calls, 30 + 60 tokens, 0 ms",
      "",
    ].join("\n"),
  );
});

test("debug adds what the model is sent", async () => {
  const text = await trace("debug");

  expect(text).toContain("    system: You help.");
  expect(text).toContain("    user: Go");
});
