import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listen } from "#playground/github/listen.ts";
import { readAppManifest } from "#setup/app-manifest.ts";
import { runChecks } from "#setup/doctor.ts";
import type { DoctorCheck } from "#setup/doctor-check.ts";
import { startForge } from "../support/forge-world.ts";

let forge: Awaited<ReturnType<typeof startForge>>;
beforeAll(async () => {
  forge = await startForge({ script: () => ({ text: "OK" }) });
  await forge.start();
});
afterAll(() => forge.close());

async function check(change: Record<string, string> = {}, callModel = false) {
  const results = [];
  const environment = { ...forge.environment, ...change };
  for await (const result of runChecks(environment, { callModel, deliveryTimeoutMs: 5_000 })) results.push(result);
  return results;
}

test("a deployment that works has no problem, its webhook included", async () => {
  await forge.github.as("maintainer").openIssue({ title: "Something to deliver", body: "" });
  await forge.github.deliveriesSettled();

  const results = await check({}, true);

  expect(results.filter(({ status }) => status === "problem")).toEqual([]);
  expect(results.find(({ name }) => name === "Webhook")).toMatchObject({
    status: "ok",
    detail: expect.stringContaining("answered a delivery of issues with"),
  });
});

test("a misspelled setting is named, with the one that was meant", async () => {
  const [settings] = await check({ GOLEM_FORGE_MODLE: "anthropic:claude-sonnet-4-5", GHE_HOST: "127.0.0.1:2" });

  expect(settings).toMatchObject({ name: "Settings", status: "warning" });
  expect(settings?.detail).toBe(
    "GOLEM_FORGE_MODLE is not a setting, so it has no effect. Did you mean GOLEM_FORGE_MODEL?",
  );
});

test("settings that are missing are all named, and nothing else is tried", async () => {
  const results = await check({ APP_ID: "", WEBHOOK_SECRET: "" });

  expect(results).toHaveLength(1);
  expect(results[0]).toMatchObject({ name: "Settings", status: "problem" });
  expect(results[0]?.detail).toMatch(/APP_ID is not set[\s\S]*WEBHOOK_SECRET is not set/);
});

test("an App id that GitHub refuses is distinguished from an unreachable GitHub", async () => {
  const refused = (await check({ APP_ID: "8" })).find(({ name }) => name === "GitHub App");
  const unreachable = (await check({ GHE_HOST: "127.0.0.1:2" })).find(({ name }) => name === "GitHub App");

  expect(refused?.detail).toContain("GitHub does not accept App 8");
  expect(unreachable?.detail).toMatch(/cannot be reached: connect ECONNREFUSED 127\.0\.0\.1:2$/);
});

test("a webhook that answers nothing is a problem with a way to fix it", async () => {
  const results = await check({ WEBHOOK_PATH: "/elsewhere" });

  expect(results.find(({ name }) => name === "Webhook")).toMatchObject({
    status: "problem",
    fix: "Correct the webhook URL on the App's settings page, or WEBHOOK_PATH.",
  });
});

test("a private key of another kind than GitHub's is refused before GitHub is asked", async () => {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

  const [settings, ...more] = await check({ PRIVATE_KEY: `${privateKey.export({ type: "pkcs8", format: "pem" })}` });

  expect(more).toEqual([]);
  expect(settings?.detail).toContain("PRIVATE_KEY is not a valid private key: expected the RSA key");
});

describe("models", () => {
  const modelOf = async (change: Record<string, string>) =>
    (await check({ GHE_HOST: "127.0.0.1:2", ...change })).find(({ name }) => name === "Model");

  test("without a default model, the workers that cannot run are named", async () => {
    const model = await modelOf({ GOLEM_FORGE_MODEL: "" });

    expect(model).toMatchObject({ status: "problem", fix: expect.stringContaining("Set GOLEM_FORGE_MODEL, such as") });
    expect(model?.detail).toMatch(/^GOLEM_FORGE_MODEL is not set\. These workers have no model .*\bfixer\b/);
  });

  test("a misspelled model has no price, and the one that is meant is named", async () => {
    const model = await modelOf({ GOLEM_FORGE_MODEL: "anthropic:claude-sonet-4-5", ANTHROPIC_API_KEY: "a key" });

    expect(model?.status).toBe("warning");
    expect(model?.detail).toContain("cost limits do not apply to it. Did you mean anthropic:claude-sonnet-4-5?");
  });
});

describe("against GitHub's documented answers", () => {
  const appId = 12;
  const deliveries = [
    { id: 1, guid: "g", event: "ping", delivered_at: "2026-11-25T00:00:00Z", status_code: 200, status: "OK" },
  ];

  async function checkWith(answers: Record<string, { status: number; body: unknown }>) {
    const { default_permissions: permissions, default_events: events } = await readAppManifest();
    const app = {
      id: appId,
      slug: "forge",
      name: "Forge",
      html_url: "https://ghe.example.com/github-apps/forge",
      client_id: "Iv1.forge",
      owner: { login: "acme", type: "Organization" },
      permissions,
      events,
    };
    const known: typeof answers = {
      "GET /api/v3/app": { status: 200, body: app },
      "GET /api/v3/app/installations": { status: 200, body: [installation({ permissions })] },
      "GET /api/v3/app/hook/config": { status: 200, body: { url: "https://forge.example.com/api/github/webhooks" } },
      "GET /api/v3/app/hook/deliveries": { status: 200, body: deliveries },
      "POST /api/v3/app/hook/deliveries/1/attempts": { status: 202, body: {} },
      "POST /api/v3/applications/Iv1.forge/token": { status: 404, body: { message: "Not Found" } },
      ...answers,
    };
    const server = createServer((request, response) => {
      const path = new URL(request.url ?? "", "http://github").pathname;
      const { status, body } = known[`${request.method} ${path}`] ?? { status: 404, body: { message: "Not Found" } };
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
    const port = await listen(server, 0);
    const environment = {
      ...forge.environment,
      GHE_HOST: `127.0.0.1:${port}`,
      GOLEM_FORGE_URL: "http://127.0.0.1:2",
      GITHUB_CLIENT_ID: "Iv1.forge",
      GITHUB_CLIENT_SECRET: "secret",
    };
    const results: DoctorCheck[] = [];
    for await (const result of runChecks(environment, { callModel: false, deliveryTimeoutMs: 1 })) results.push(result);
    server.close();
    return { results, find: (wanted: string) => results.filter(({ name }) => name === wanted) };
  }

  function installation(change: object) {
    return {
      account: { login: "acme", type: "Organization" },
      html_url: "https://ghe.example.com/organizations/acme/settings/installations/7",
      suspended_at: null,
      ...change,
    };
  }

  test("an installation that has not granted a permission is a problem, and names the page where an owner grants it", async () => {
    const { default_permissions } = await readAppManifest();
    const permissions = { ...default_permissions, contents: "read" };

    const { find } = await checkWith({
      "GET /api/v3/app/installations": {
        status: 200,
        body: [installation({ permissions }), installation({ permissions: {}, suspended_at: "2026-11-25T00:00:00Z" })],
      },
    });

    expect(find("Installations")).toEqual([
      { name: "Installations", status: "ok", detail: "2." },
      {
        name: "Installations",
        status: "problem",
        detail: "acme has not granted contents: write.",
        fix: "An owner has to accept the App's permissions: https://ghe.example.com/organizations/acme/settings/installations/7",
      },
      expect.objectContaining({ status: "warning", detail: "acme has suspended the App." }),
    ]);
  });

  test("the installation of a person needs no permission of an organization", async () => {
    const { default_permissions } = await readAppManifest();
    const { members, ...permissions } = default_permissions;
    const body = [installation({ account: { login: "ada", type: "User" }, permissions })];

    const { find } = await checkWith({ "GET /api/v3/app/installations": { status: 200, body } });

    expect(members).toBe("read");
    expect(find("Installations")).toEqual([{ name: "Installations", status: "ok", detail: "1." }]);
  });

  test("the settings of an organization's App are at the organization", async () => {
    const { default_permissions: permissions } = await readAppManifest();
    const body = {
      name: "Forge",
      slug: "forge",
      html_url: "https://ghe.example.com/github-apps/forge",
      owner: { login: "acme", type: "Organization" },
      permissions,
      events: [],
    };

    const { find } = await checkWith({ "GET /api/v3/app": { status: 200, body } });

    expect(find("Permissions")[0]?.fix).toMatch(
      /http:\/\/127\.0\.0\.1:\d+\/organizations\/acme\/settings\/apps\/forge\/permissions/,
    );
  });

  test("a secret of the OAuth client that GitHub refuses is a problem", async () => {
    const right = await checkWith({});
    const wrong = await checkWith({
      "POST /api/v3/applications/Iv1.forge/token": { status: 401, body: { message: "Bad credentials" } },
    });

    expect(right.find("Sign-in")).toMatchObject([{ status: "ok" }]);
    expect(wrong.find("Sign-in")).toMatchObject([
      { status: "problem", detail: "GitHub does not accept GITHUB_CLIENT_SECRET." },
    ]);
  });
});
