import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { createJobLog } from "#action/job.ts";
import { requestEdited } from "#bot/deliveries/handle-request-edit.ts";

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

test("an edited request is handled in a job as well, although its comment is that of GitHub's own App", () => {
  const read = (login: string) => {
    const comment = {
      id: 3,
      body: "x",
      user: { login, id: 41_898_282, type: "Bot" },
      performed_via_github_app: { id: 15_368, name: "GitHub Actions" },
      updated_at: new Date().toISOString(),
    };
    const payload = {
      action: "edited",
      installation: { id: 0 },
      repository: { id: 1, name: "r", owner: { id: 2, login: "o" } },
      sender: { login: "ada", id: 5, type: "User" },
      issue: { number: 1 },
      comment,
      changes: { body: { from: "y" } },
    };
    return requestEdited.read(payload, { appId: undefined, serves: () => true });
  };

  expect(read("github-actions[bot]")).toHaveProperty("queue");
  expect(read("other[bot]")).toEqual({ ignored: "it is not a comment of this app" });
});
