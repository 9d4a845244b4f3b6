import { expect, test } from "vitest";
import { createCLIApprovalCallback } from "#terminal/ask-approval.ts";
import { createEventCLIAdapter } from "#terminal/event-cli-adapter.ts";
import { createUIEventBus } from "#ui/ui-event-bus.ts";
import { pseudoTerminal } from "../support/terminal-world.ts";

const request = { toolName: "write_file", toolArgs: { path: "/a.txt" }, description: "Write content to file" };

test.each([
  ["y", { approved: true, remember: "none" }],
  ["Yes", { approved: true, remember: "none" }],
  ["remember", { approved: true, remember: "session" }],
  ["n", { approved: false, remember: "none" }],
  ["", { approved: false, remember: "none" }],
  ["deny no time", { approved: false, remember: "none", note: "no time" }],
])("%j is %j", async (line, decision) => {
  const { input, output, sees, type, text } = pseudoTerminal();

  const answer = createCLIApprovalCallback({ input, output })(request);
  await sees("Approve?");
  type(line);

  expect(await answer).toEqual(decision);
  expect(text()).toContain("Tool: write_file\nDescription: Write content to file\nArguments:\n  path: /a.txt\n");
});

test("the alternative names of a request's fields work, and a call without arguments has no section for them", async () => {
  const { input, output, sees, type, text } = pseudoTerminal();

  const answer = createCLIApprovalCallback({ input, output })({ tool: "list", args: {}, reason: "Look" });
  await sees("Approve?");
  type("y");

  expect(await answer).toMatchObject({ approved: true });
  expect(text()).not.toContain("Arguments:");
});

test("a request is denied when the input has ended", async () => {
  const { input, output } = pseudoTerminal();
  input.end();

  expect(await createCLIApprovalCallback({ input, output })(request)).toMatchObject({ approved: false });
});

test("lines that arrived before a request was shown do not answer it", async () => {
  const { input, output, sees, type, text } = pseudoTerminal();
  const callback = createCLIApprovalCallback({ input, output });
  input.write("y\ny\n");

  const answer = callback(request);
  await sees("Approve?");
  type("n");

  expect(await answer).toMatchObject({ approved: false });
  expect(text()).toContain("Input from before this question is ignored.");
});

test("it shares the input with an adapter, and each line is read once", async () => {
  const { input, output, sees, type } = pseudoTerminal();
  const adapter = createEventCLIAdapter(createUIEventBus(), { input, output });
  await adapter.initialize();

  const answer = createCLIApprovalCallback({ input, output })(request);
  await sees("Approve?");
  type("y");
  expect(await answer).toMatchObject({ approved: true });
  const line = adapter.readLine();
  type("go on");

  expect(await line).toBe("go on");
});
