import { afterAll, beforeAll, expect, test } from "vitest";
import { byTurn, call, inSequence, type Stories, startStories } from "../support/forge-stories.ts";
import { approvalIdIn } from "../support/forge-world.ts";
import { privateKey } from "../support/test-github.ts";

// It has the format of no token, so only its being one of the app's secrets lets it be recognized.
const modelKey = "quiet.words.that.open.the.model";

const log: string[] = [];
let forge: Stories;

beforeAll(async () => {
  forge = await startStories({ environment: { OPENAI_API_KEY: modelKey, LOG_LEVEL: "trace" } });
  const app = await forge.startProcess();
  log.push(forge.printed());
  for (const stream of [app.stdout, app.stderr]) stream?.on("data", (text) => log.push(String(text)));
});
afterAll(() => forge.close());

test("the log contains no secret, issue, prompt or answer, even when requests fail", async () => {
  const issueText = "the-text-of-an-issue";
  const modelText = "the-text-of-a-model";
  const story = forge.open({
    title: "Broken",
    body: issueText,
    script: inSequence(
      { status: 500, message: `I cannot read: ${issueText}` },
      call("read_file", { path: "README.md" }),
      { rawCalls: [{ name: "write_file", arguments: `{"content": "${modelText}` }] },
      { text: modelText },
    ),
  });

  story.comment(`/run reviewer ${issueText}`);
  await story.botComment(/✅/);

  const printed = log.join("");
  expect(printed).toContain("Listening on");
  const secrets = [forge.webhookSecret, modelKey, "PRIVATE KEY", "ghs_", "Bearer "];
  for (const text of [issueText, modelText, ...secrets]) expect(printed).not.toContain(text);
});

test("no secret of the app is sent or logged, wherever a model or a person repeats it", async () => {
  const { webhookSecret } = forge;
  const keyLine = privateKey.split("\n")[3] ?? "";
  const all = [webhookSecret, modelKey, privateKey, keyLine, Buffer.from(modelKey).toString("base64")].join(" and ");

  const story = forge.open({
    title: "The model repeats everything",
    script: byTurn(
      { text: all, reasoning: all, calls: [{ name: modelKey, args: { all } }] },
      { rawCalls: [{ name: "read_file", arguments: `{"path": "${modelKey}", ${webhookSecret}` }] },
      call("read_file", { path: `${modelKey}/${keyLine}.pem` }),
      call("write_tasks", { tasks: [{ content: all, activeForm: all, status: "in_progress" }] }),
      call("write_file", { path: "NOTES.md", content: `${modelKey}\n` }),
      call("reply", { text: all }),
      call("add_labels", { labels: [modelKey] }),
      call("open_pull_request", { title: `About ${modelKey}`, body: all }),
      call("ask_user", { question: all, options: [modelKey, webhookSecret] }),
      { text: `In the end: ${all}` },
    ),
  });
  story.comment("/run fixer");
  const approved = new Set<string>();
  await story.until(({ comments }) => {
    for (const request of comments.filter(({ body }) => /asks for approval/.test(body))) {
      const id = approvalIdIn(request);
      if (!approved.has(id)) story.comment(`/approve ${id}`);
      approved.add(id);
    }
    return comments.find(({ body }) => /💬 \*\*fixer\*\* asks/.test(body));
  }, "the question");
  expect(approved.size).toBeGreaterThan(0);
  story.comment("Go on.");
  await story.botComment(/In the end:/);

  const failed = forge.open({ title: "The provider repeats it", script: inSequence({ status: 400, message: all }) });
  failed.comment("/run fixer");
  await failed.botComment(/failed[\s\S]*To try again/);
  failed.comment(`/run ${modelKey.replaceAll(".", "-")}`);
  failed.comment(`/approve ${modelKey}`);
  await failed.botComment(/Nothing was approved/);
  await forge.github.deliveriesSettled();
  await forge.end("SIGTERM");

  const bot = JSON.stringify(await forge.github.snapshot(), (_, value) => {
    return value?.author && value.author !== forge.github.botLogin ? undefined : value;
  });
  const printed = log.join("");
  for (const secret of [webhookSecret, modelKey, keyLine, Buffer.from(modelKey).toString("base64")]) {
    expect(bot).not.toContain(secret);
    expect(printed).not.toContain(secret);
  }
  expect(bot).toContain("[secret removed]");
  expect(printed).toContain("Listening on");
  // Neither does any installation token.
  expect(`${bot}${printed}`).not.toMatch(/ghs_\w|eyJ\w+\.eyJ/);
});
