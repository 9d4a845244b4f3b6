import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { listen } from "#playground/github/listen.ts";
import { byTurn, call, messageText, type Stories, startStories } from "../support/forge-stories.ts";
import { forgeRepository } from "../support/forge-world.ts";
import { privateKey } from "../support/test-github.ts";

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "golem-forge-configuration-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

describe("a wrong setting is reported in a sentence", () => {
  test.each([
    [
      "a folder of workers that does not exist",
      { GOLEM_FORGE_WORKERS: "/no/such/folder" },
      "cannot be read: /no/such/folder",
    ],
    [
      "no model at all",
      { GOLEM_FORGE_MODEL: "", OPENAI_API_KEY: "" },
      "No model can be used, so no worker can run. Set GOLEM_FORGE_MODEL",
    ],
    ["an unknown provider", { GOLEM_FORGE_MODEL: "antropic:claude" }, "Did you mean anthropic:claude?"],
  ])("%s", async (_, environment, message) => {
    expect(await refusal(environment)).toContain(message);
  });

  test("an App that GitHub does not accept, even if GitHub has redirected the request", async () => {
    const github = createServer((request, response) =>
      request.url === "/moved" ? response.writeHead(401).end() : response.writeHead(307, { location: "/moved" }).end(),
    );
    const port = await listen(github, 0);
    onTestFinished(() => void github.close());

    expect(await refusal({ GHE_HOST: `127.0.0.1:${port}` })).toContain(
      "GitHub does not accept App 7 with this private key (status 401).",
    );
  });

  test("a port in use", async () => {
    const other = createServer();
    const port = await listen(other, 0);
    onTestFinished(() => void other.close());

    expect(await refusal({ PORT: String(port) })).toMatch(
      /cannot listen: address already in use 127\.0\.0\.1:\d+\. Set HOST and PORT/,
    );
  });
});

describe("while it runs", () => {
  let forge: Stories;

  beforeAll(async () => {
    const files = { ".github/workers/sheller.worker": "---\nname: sheller\ntoolsets: { shell: {} }\n---\nRun it." };
    const commit = { branch: "main", message: "A worker", author: "maintainer", at: new Date(), files };
    forge = await startStories({
      repositories: [{ ...forgeRepository, commits: [...(forgeRepository.commits ?? []), commit] }],
    });
    await forge.start();
  });
  afterAll(() => forge.close());

  test("/healthz, /readyz and the landing page answer, and no other page exists", async () => {
    expect(await ask("/healthz")).toEqual([200, "ok\n"]);
    expect(await ask("/readyz")).toEqual([200, "ready\n"]);
    expect(await ask("/")).toEqual([200, expect.stringContaining("Golem Forge is running")]);
    expect(await ask("/elsewhere")).toEqual([404, expect.any(String)]);
    expect(await ask("/api/github/webhooks")).toEqual([405, "Send webhooks with POST.\n"]);
  });

  test("a second app on the same database is refused", async () => {
    expect(await refusal({ DATABASE_URL: `file:${forge.databasePath}` })).toMatch(
      /in use by another Golem Forge process/,
    );
  });

  test("a call whose arguments hold a secret of the deployment is refused, and no request shows it", async () => {
    const secret = forge.webhookSecret;
    const story = forge.open({
      title: "Print what you know",
      script: byTurn(call("shell", { command: `rm -rf "${secret}"` }), { text: "I could not." }),
    });

    story.comment("/run sheller");

    await story.botComment(/I could not\./);
    expect(messageText(story.requests.at(-1)?.messages.at(-1))).toContain("holds what looks like a secret");
    expect((await story.comments()).join("\n")).not.toMatch(/asks for approval/);
  });

  async function ask(path: string): Promise<[number, string]> {
    const answer = await fetch(`${forge.url}${path}`);
    return [answer.status, await answer.text()];
  }
});

/** Starts the app and stops it after the test. */
async function start(environment: Record<string, string>): Promise<void> {
  const { createApp } = await import("../../src/app.ts");
  const app = await createApp(environment);
  onTestFinished(() => app.stop());
  await app.start();
}

/** Starts the app, and resolves to the message with which it refuses to start. The app prints it without a stack. */
async function refusal(environment: Record<string, string>): Promise<string> {
  const error = await start({ ...complete(), ...environment }).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(UserError);
  return (error as UserError).message;
}

/** All required settings, with a new database. */
function complete(): Record<string, string> {
  return {
    APP_ID: "7",
    PRIVATE_KEY: privateKey,
    WEBHOOK_SECRET: "a secret",
    HOST: "127.0.0.1",
    PORT: "0",
    LOG_LEVEL: "silent",
    GOLEM_FORGE_MODEL: "openai:gpt-5",
    OPENAI_API_KEY: "a key of nobody",
    GOLEM_FORGE_SANDBOX: "off",
    GHE_HOST: "127.0.0.1:1",
    GHE_PROTOCOL: "http",
    DATABASE_URL: `file:${join(directory, `${Math.random()}.db`)}`,
  };
}
