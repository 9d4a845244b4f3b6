import { lstat, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HttpResponse, http, passthrough } from "msw";
import { setupServer } from "msw/node";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { readServerAddress } from "#config/config.ts";
import { type SetupServer, startSetupServer } from "#setup/setup-server.ts";

const app = {
  id: 42,
  name: "Golem Forge",
  html_url: "https://github.com/apps/golem-forge-ada",
  pem: "-----BEGIN RSA PRIVATE KEY-----\nkey\n-----END RSA PRIVATE KEY-----\n",
  webhook_secret: "a secret of the webhook",
  client_id: "Iv1.abc",
  client_secret: "a secret of the client",
};
const github = setupServer(
  http.post("https://api.github.com/app-manifests/:code/conversions", ({ params }) =>
    params.code === "good" ? HttpResponse.json(app, { status: 201 }) : new HttpResponse(null, { status: 404 }),
  ),
  http.all("http://localhost:*/*", () => passthrough()),
);
beforeAll(() => github.listen({ onUnhandledFrame: "error" }));
afterAll(() => github.close());

let directory: string;
let envFile: string;
let page: SetupServer;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "golem-forge-setup-"));
  envFile = join(directory, ".env");
  page = await startSetupServer({ ...readServerAddress({ PORT: "0" }), envFile });
});
afterEach(async () => {
  await page.close();
  await rm(directory, { recursive: true });
});

const open = (path: string) => fetch(new URL(path, page.url));
const token = () => new URL(page.url).searchParams.get("token") ?? "";

test("the page opens only with the token that the server printed", async () => {
  expect((await fetch(page.url)).status).toBe(200);
  expect((await open("/")).status).toBe(404);
  expect((await open("/?token=guess")).status).toBe(404);
  expect((await open("/registered?code=good&state=guess")).status).toBe(404);
});

test("GitHub is given a manifest with this server's addresses and the permissions of app.yml", async () => {
  const answer = await open(
    `/register?token=${token()}&name=Forge&origin=https://forge.example.com/x&organization=acme`,
  );

  const text = (await answer.text()).replaceAll("&quot;", '"');
  expect(text).toContain(`action="https://github.com/organizations/acme/settings/apps/new?state=${token()}"`);
  const manifest = JSON.parse(/value="(\{.*\})"/.exec(text)?.[1] ?? "");
  expect(manifest).toMatchObject({
    name: "Forge",
    hook_attributes: { url: "https://forge.example.com/api/github/webhooks" },
    callback_urls: ["https://forge.example.com/runs/-/signed-in"],
    redirect_url: new URL("/registered", page.url).href,
    default_permissions: { contents: "write" },
  });
});

test("an address that is not one is asked for again", async () => {
  const answer = await open(`/register?token=${token()}&name=Forge&origin=forge`);

  expect(answer.status).toBe(400);
  expect(await answer.text()).toContain("Give the public address of this server");
});

test("the settings and the key are written where only their owner reads them", async () => {
  await writeFile(envFile, "LOG_LEVEL=debug");

  const answer = await open(`/registered?code=good&state=${token()}`);

  expect(await answer.text()).toContain("https://github.com/apps/golem-forge-ada/installations/new");
  expect(await page.registered).toEqual({ name: "Golem Forge", url: app.html_url, envFile });
  const keyFile = join(directory, "golem-forge-ada.private-key.pem");
  expect(await readFile(envFile, "utf8")).toBe(
    `LOG_LEVEL=debug\nAPP_ID=42\nPRIVATE_KEY_PATH=${keyFile}\nWEBHOOK_SECRET="a secret of the webhook"\n` +
      'GITHUB_CLIENT_ID=Iv1.abc\nGITHUB_CLIENT_SECRET="a secret of the client"\n',
  );
  expect(await readFile(keyFile, "utf8")).toBe(app.pem);
  expect([(await stat(envFile)).mode & 0o777, (await stat(keyFile)).mode & 0o777]).toEqual([0o600, 0o600]);
});

test("the addresses that were entered are written too, so that the server needs no more settings than a model", async () => {
  await page.close();
  page = await startSetupServer({ ...readServerAddress({ PORT: "0", GHE_HOST: "ghe.example.com" }), envFile });
  github.use(
    http.post("https://ghe.example.com/api/v3/app-manifests/good/conversions", () =>
      HttpResponse.json(app, { status: 201 }),
    ),
  );
  await open(`/register?token=${token()}&name=Forge&origin=https://forge.example.com/x`);

  await open(`/registered?code=good&state=${token()}`);

  expect((await readFile(envFile, "utf8")).split("\n").slice(-4)).toEqual([
    "GOLEM_FORGE_URL=https://forge.example.com",
    "GHE_HOST=ghe.example.com",
    "GHE_PROTOCOL=https",
    "",
  ]);
});

test("behind a proxy with TLS, GitHub sends the browser back to the address that it knows", async () => {
  const { port } = new URL(page.url);

  const answer = await open(`/register?token=${token()}&name=Forge&origin=https://localhost:${port}`);

  expect((await answer.text()).replaceAll("&quot;", '"')).toContain(
    `"redirect_url":"https://localhost:${port}/registered"`,
  );
});

test("settings that are there already are never overwritten", async () => {
  await writeFile(envFile, "APP_ID=1\n");

  const answer = await open(`/registered?code=good&state=${token()}`);

  expect(answer.status).toBe(400);
  expect(await answer.text()).toContain("already sets APP_ID");
  expect(await readFile(envFile, "utf8")).toBe("APP_ID=1\n");
});

test("the key of an earlier App with the same name is kept, and that of the new one is not lost", async () => {
  const keyFile = join(directory, "golem-forge-ada.private-key.pem");
  await writeFile(keyFile, "the key of an App that was deleted");

  await open(`/registered?code=good&state=${token()}`);

  const [, path = ""] = /^PRIVATE_KEY_PATH=(.*)$/m.exec(await readFile(envFile, "utf8")) ?? [];
  expect(await readFile(path, "utf8")).toBe(app.pem);
  expect(await readFile(keyFile, "utf8")).toBe("the key of an App that was deleted");
});

test("the code is not used if the settings cannot be written", async () => {
  await page.close();
  page = await startSetupServer({ ...readServerAddress({ PORT: "0" }), envFile: join(directory, "missing", ".env") });

  const answer = await open(`/registered?code=good&state=${token()}`);

  expect(answer.status).toBe(400);
  expect(await answer.text()).toContain("Nothing can be written to ");
});

test("an env file that cannot be read is not replaced", async () => {
  await symlink(envFile, envFile);

  const answer = await open(`/registered?code=good&state=${token()}`);

  expect(await answer.text()).toContain(`${envFile} cannot be read (ELOOP)`);
  expect((await lstat(envFile)).isSymbolicLink()).toBe(true);
});

test("a code that GitHub refuses writes nothing", async () => {
  const answer = await open(`/registered?code=old&state=${token()}`);

  expect(answer.status).toBe(400);
  expect(await answer.text()).toContain("GitHub did not accept the code");
  await expect(readFile(envFile)).rejects.toThrow("ENOENT");
});
