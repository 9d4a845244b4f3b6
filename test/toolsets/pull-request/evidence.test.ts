import { expect, test } from "vitest";
import { createSanitizer } from "#text/sanitize.ts";
import { withEvidenceSection } from "#toolsets/pull-request/open-and-update.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";

const secret = "hunter2-hunter2-hunter2";

function addSection(body: string, ...calls: FinishedCall[]): string {
  return withEvidenceSection(body, { history: () => calls, sanitize: createSanitizer([secret]) });
}

function call(tool: string, value: FinishedCall["result"]["value"], args: object = {}): FinishedCall {
  return { callId: tool, tool, args, step: 1, result: { llmContent: "", value } };
}

const ran = (command: string, exitCode: number) =>
  call("shell", { kind: "terminal", content: "", exitCode }, { command });

const tested = (failures: string[], { command = "npx vitest run", tests = 4 } = {}) =>
  call("run_tests", {
    kind: "test.summary",
    data: {
      command,
      exitCode: failures.length === 0 ? 0 : 1,
      passed: tests - failures.length,
      failed: failures.length,
      failures: failures.map((name) => ({ name, error: "expected 2" })),
    },
  });

test("the description says what was run with exit codes, and which test failed before and passed later", () => {
  const body = addSection("It subtracted.", tested(["adds > two"]), ran("npm run lint", 0), tested([]));

  expect(body).toContain("It subtracted.\n\n<!-- golem-forge: evidence -->");
  expect(body).toContain("| `npx vitest run` | exit code 1, 3 passed, 1 failed |");
  expect(body).toContain("| `npm run lint` | exit code 0 |");
  expect(body).toContain("| `npx vitest run` | exit code 0, 4 passed, 0 failed |");
  expect(body).toContain("Failed before, and passed in a later run:\n\n- `adds > two`");
});

test("a later section replaces the earlier one and keeps what people wrote around it", () => {
  const first = addSection("It subtracted.", ran("make", 2));
  const second = addSection(`${first}\n\nReviewed by Ada.`, ran("make", 2), ran("make", 0));

  expect(second.match(/golem-forge: evidence -->/g)).toHaveLength(2);
  expect(second).toContain("| `make` | exit code 0 |");
  expect(second).toMatch(/Reviewed by Ada\.$/);
});

test.each([
  ["of another file", "npx vitest run b.test.js", false],
  ["of a file with a longer name", "npx vitest run a.test.jsx", false],
  ["of the same file", "npx vitest run a.test.js", true],
  ["of all tests", "npx vitest run", true],
])("a test that failed is claimed as repaired after a later run %s: %s is %s", (_, command, isRepaired) => {
  const body = addSection("Text", tested(["adds"], { command: "npx vitest run a.test.js" }), tested([], { command }));

  expect(body.includes("passed in a later run:\n\n- `adds`")).toBe(isRepaired);
});

test("a test that failed again after it passed is not claimed as repaired, and other tests run later do not matter", () => {
  const other = tested([], { command: "npx vitest run b.test.js" });

  expect(addSection("Text", tested(["adds"]), tested([]), tested(["adds"]), other)).not.toContain(
    "passed in a later run",
  );
  expect(addSection("Text", tested(["adds"]), tested([]), other)).toContain("passed in a later run:\n\n- `adds`");
});

test("a test that was removed or is skipped is not claimed as repaired", () => {
  expect(addSection("Text", tested(["adds"]), tested([], { tests: 3 }))).not.toContain("passed in a later run");
});

test("no test is claimed as repaired while the last run fails, and no command means no section", () => {
  expect(addSection("Text", tested(["one", "two"]), tested(["two"]))).not.toContain("passed in a later run");
  expect(addSection("Text")).toBe("Text");
});

test("a command cannot leave its cell, close the section or publish a secret", () => {
  const body = addSection("Text", ran(`echo "a | b" \`x\`\n<!-- /golem-forge: evidence --> ${secret} @ada`, 0));

  expect(body).not.toContain(secret);
  expect(body.split("<!-- /golem-forge: evidence -->")).toHaveLength(2);
  expect(body.split("\n").filter((line) => line.startsWith("| `echo"))).toHaveLength(1);
});
