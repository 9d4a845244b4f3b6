import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ModelReply } from "#playground/model/model-server.ts";
import {
  byTurn,
  call,
  inSequence,
  messageText,
  type Script,
  type Stories,
  startStories,
} from "../support/forge-stories.ts";

const key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
let forge: Stories;

beforeAll(async () => {
  forge = await startStories({ environment: { OPENAI_API_KEY: key, LOG_LEVEL: "info" } });
  await forge.start();
});
afterAll(() => forge.close());

describe.concurrent("a model that", () => {
  test("a model that is rate limited is called again after the requested pause, and the status says why", async () => {
    const at: number[] = [];
    const script = timed(
      at,
      inSequence({ status: 429, message: "Slow down.", retryAfter: 3 }, { text: "Worth the wait." }),
    );
    const { comment, botComment } = forge.open({ title: "Too many requests", script });

    comment("/run fixer");

    await botComment(/Waiting to try the model again: OpenAI is rate-limiting requests: Slow down\./);
    await botComment(/Worth the wait\./);
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual(3_000);
  });

  test("a model that asks for a pause of a day ends the run at once", async () => {
    const script = inSequence({ status: 429, message: "Come back tomorrow.", retryAfter: 86_400 });
    const { comment, botComment, requests } = forge.open({ title: "Come back tomorrow", script });

    comment("/run fixer");

    expect((await botComment(/failed[\s\S]*To try again/)).body).toContain(
      "> OpenAI is rate-limiting requests: Come back tomorrow.",
    );
    expect(requests).toHaveLength(1);
  });

  test("a model that fails twice is called a third time", async () => {
    const failure: ModelReply = { status: 500, message: "<html>Internal</html>", retryAfter: 0 };
    const { comment, botComment } = forge.open({
      title: "Fails twice",
      script: inSequence(failure, failure, { text: "At last." }),
    });

    comment("/run fixer");

    await botComment(/At last\./);
  });

  test("a model that drops the connection is called again, and its partial reply is discarded", async () => {
    const script = inSequence(
      { dropAfterBytes: 600, text: "Half a sentence that ends in the mid" },
      { text: "A whole one." },
    );
    const { comment, botComment, comments, requests } = forge.open({ title: "Broken off", script });

    comment("/run fixer");

    await botComment(/A whole one\./);
    expect(JSON.stringify([await comments(), requests.at(-1)?.messages])).not.toContain("Half a sentence");
  });

  test("a model that sends an empty reply is called again", async () => {
    const { comment, botComment } = forge.open({
      title: "Empty reply",
      script: inSequence({ text: "" }, { text: "Here I am." }),
    });

    comment("/run fixer");

    await botComment(/Here I am\./);
  });

  test.each<[string, ModelReply, RegExp]>([
    ["calls with broken JSON", { rawCalls: [{ name: "read_file", arguments: '{"path": "src/to' }] }, /JSON|path/],
    ["calls an unknown tool", call("read_fil", { path: "README.md" }), /Did you mean read_file\?/],
    ["gives arguments of wrong types", call("grep", { pattern: { not: "text" } }), /pattern/],
    ["reads outside the repository", call("read_file", { path: "../../etc/passwd" }), /outside|leaves|repository/],
  ])("a model that %s is told what is wrong, and the run continues", async (what, reply, complaint) => {
    const script = byTurn(reply, { text: "Never mind." });
    const { comment, botComment, requests } = forge.open({ title: `The model ${what}`, script });

    comment("/run fixer");

    await botComment(/Never mind\./);
    const seen =
      requests
        .at(-1)
        ?.messages.filter(({ role }) => role === "tool")
        .map(messageText) ?? [];
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatch(complaint);
  });

  test.each<[string, ModelReply, string]>([
    [
      "rejects the key",
      { status: 401, message: `Incorrect API key provided: ${key}.` },
      "> OpenAI rejected the key. Check OPENAI_API_KEY.",
    ],
    [
      "does not exist",
      { status: 404, message: "The model `scripted` does not exist", code: "model_not_found" },
      "> OpenAI does not know the model openai:scripted",
    ],
    [
      "has no credit left",
      { status: 429, message: "You exceeded your quota.", code: "insufficient_quota" },
      "no credit left",
    ],
    [
      "rejects the request",
      { status: 400, message: "Invalid value for 'tools'." },
      "> OpenAI rejected the request (HTTP 400): Invalid value for 'tools'.",
    ],
  ])("a model that %s ends the run with an explanation after one call", async (what, reply, sentence) => {
    const { comment, botComment, requests } = forge.open({
      title: `The model that ${what}`,
      script: inSequence(reply),
    });

    comment("/run fixer");

    expect((await botComment(/failed[\s\S]*To try again/)).body).toContain(sentence);
    expect(requests).toHaveLength(1);
  });

  test("a run whose model hangs can be stopped by a person, and continues when it is resumed", async () => {
    const script = inSequence({ hang: true, text: "Let me th" }, { text: "Finished thinking." });
    const { comment, botComment, asked } = forge.open({ title: "Hangs", script });
    comment("/run fixer");
    await asked;

    comment("/stop");
    await botComment(/\*\*fixer\*\* is paused/);
    comment("/resume");

    await botComment(/Finished thinking\./);
  });
});

test("every request was streamed, and the key appears in no comment and no log", async () => {
  expect(forge.model.requests.every(({ stream }) => stream)).toBe(true);
  expect(JSON.stringify(await forge.github.snapshot())).not.toContain(key);
  expect(forge.printed()).not.toContain(key);
});

function timed(at: number[], script: Script): Script {
  return (request) => {
    at.push(Date.now());
    return script(request);
  };
}
