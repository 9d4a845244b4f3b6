import { expect, test } from "vitest";
import { byTurn, call, inSequence, startStories } from "../support/forge-stories.ts";
import { approvalIdIn } from "../support/forge-world.ts";
import { privateKey } from "../support/test-github.ts";

// Not in the shape of any token, so that it is known for what it is: the one this app holds.
const modelKey = "quiet.words.that.open.the.model";

test("no secret the app holds leaves it, wherever a model or a person puts it", async () => {
  const forge = await startStories({ environment: { OPENAI_API_KEY: modelKey, LOG_LEVEL: "trace" } });
  const log: string[] = [];
  try {
    const app = await forge.start();
    log.push(forge.printed());
    for (const stream of [app.stdout, app.stderr]) stream?.on("data", (text) => log.push(String(text)));
    const { webhookSecret } = forge;
    const keyLine = privateKey.split("\n")[3] ?? "";
    const all = [webhookSecret, modelKey, privateKey, keyLine, Buffer.from(modelKey).toString("base64")].join(" and ");

    const told = forge.open({
      title: "Everything is told",
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
    told.comment("/run fixer");
    for (const tool of ["reply", "add_labels", "open_pull_request"]) {
      told.comment(
        `/approve ${approvalIdIn(await told.botComment(new RegExp(`asks for approval[\\s\\S]*Tool \`${tool}\``)))}`,
      );
    }
    await told.botComment(/💬 \*\*fixer\*\* asks/);
    told.comment("Go on.");
    await told.botComment(/In the end:/);

    const failed = forge.open({ title: "The provider quotes it", script: inSequence({ status: 400, message: all }) });
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
    expect(printed).toContain("GitHub request: POST");
    // Nor does any token of GitHub's that it used.
    expect(`${bot}${printed}`).not.toMatch(/ghs_\w|eyJ\w+\.eyJ/);
  } finally {
    await forge.close();
  }
});
