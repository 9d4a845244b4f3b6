import { afterAll, beforeAll, expect, test } from "vitest";
import { type Forge, startForge } from "../support/forge-world.ts";

const issueText = "the-text-of-an-issue";
const modelText = "the-text-of-a-model";
let forge: Forge;

beforeAll(async () => {
  let asked = 0;
  forge = await startForge({
    environment: { LOG_LEVEL: "debug" },
    script: () => {
      asked += 1;
      if (asked === 1) return { status: 500, message: `I cannot read: ${issueText}` };
      if (asked === 2) return { calls: [{ name: "read_file", args: { path: "README.md" } }] };
      return asked === 3
        ? { rawCalls: [{ name: "write_file", arguments: `{"content": "${modelText}` }] }
        : { text: modelText };
    },
  });
  await forge.startProcess();
});
afterAll(() => forge.close());

test("the log contains no secret, issue, prompt or answer, even when requests fail", async () => {
  const maintainer = forge.github.as("maintainer");
  const { number } = maintainer.openIssue({ title: "Broken", body: issueText });
  maintainer.comment(number, `/run reviewer ${issueText}`);
  await forge.botComment(number, /✅/);

  const printed = forge.printed();
  expect(printed).toContain("Listening on");
  const secrets = [forge.webhookSecret, "sk-not-a-real-key-of-anyone", "PRIVATE KEY", "ghs_", "Bearer "];
  for (const text of [issueText, modelText, ...secrets]) expect(printed).not.toContain(text);
});
