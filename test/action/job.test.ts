import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { createJobLog } from "#action/job.ts";

function logged(write: (log: ReturnType<typeof createJobLog>) => void): string {
  const output = new PassThrough();
  write(createJobLog(output, (text) => text.replaceAll("hunter2", "[secret]")));
  return String(output.read());
}

test.each([
  "::set-output name=a::b",
  "a\n::add-path::/tmp",
  "a\r::stop-commands::x",
  "  ::debug::x",
  "a ##[error]x",
  "a\u2028::warning::x",
])("a line of text is never a command to the runner: %j", (text) => {
  for (const line of logged((log) => log.info(text)).split(/[\n\r\u2028]/)) {
    expect(line).not.toMatch(/^\s*::|##\[/);
  }
});

test("an annotation is one line without secrets", () => {
  const text = logged((log) => log.annotate("100 % of hunter2\n::set-env name=a::b"));

  expect(text).toBe("::error title=Golem Forge::100 %25 of [secret]%0A::set-env name=a::b\n");
});
