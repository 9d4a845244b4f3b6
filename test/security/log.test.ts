import { afterAll, beforeAll, expect, test } from "vitest";
import { type Forge, startForge } from "../support/forge-world.ts";

const words = "the-words-of-an-issue";
const answer = "the-words-of-a-model";
let forge: Forge;

beforeAll(async () => {
  let asked = 0;
  forge = await startForge({
    environment: { LOG_LEVEL: "debug" },
    script: () => {
      asked += 1;
      if (asked === 1) return { status: 500, message: `I cannot read: ${words}` };
      if (asked === 2) return { calls: [{ name: "read_file", args: { path: "README.md" } }] };
      return asked === 3
        ? { rawCalls: [{ name: "write_file", arguments: `{"content": "${answer}` }] }
        : { text: answer };
    },
  });
  await forge.start();
});
afterAll(() => forge.close());

test("the log holds no secret, no issue, no prompt and no answer, whatever fails", async () => {
  const maintainer = forge.github.as("maintainer");
  const { number } = maintainer.openIssue({ title: "Broken", body: words });
  maintainer.comment(number, `/run reviewer ${words}`);
  await forge.botComment(number, /✅/);

  const printed = forge.printed();
  expect(printed).toContain("Listening on");
  const secrets = [forge.webhookSecret, "sk-not-a-real-key-of-anyone", "PRIVATE KEY", "ghs_", "Bearer "];
  for (const text of [words, answer, ...secrets]) expect(printed).not.toContain(text);
});
