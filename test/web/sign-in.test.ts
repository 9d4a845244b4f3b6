import { Hono } from "hono";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "#playground/github/listen.ts";
import { createSealedCookies, sessionCookie } from "#web/sessions.ts";
import { TestGitHub } from "../support/test-github.ts";
import { webWorlds } from "../support/web-world.ts";

const world = webWorlds();
const client = { clientId: "Iv1.test", clientSecret: "the secret of a client" };
let github: TestGitHub;
let port: number;

beforeAll(async () => {
  port = await freePort();
  const callbackUrl = `http://127.0.0.1:${port}/runs/-/signed-in`;
  github = await TestGitHub.start({ app: { oauth: { ...client, callbackUrl } } });
});
afterAll(() => github.close());

/** A browser that GitHub is about to redirect back, with its cookie and the callback URL. Default: from the page of a run. */
async function beginSignIn(from?: string) {
  const made = await world({
    githubUrl: github.url,
    client,
    port,
    github: { permissions: { contributor: "write" } },
  });
  await made.startRun("abc1");
  const path = from ?? made.pathOf("abc1");
  const sent = await made.get(`/runs/-/sign-in?to=${encodeURIComponent(path)}`);
  const cookie = sent.headers.get("set-cookie")?.split(";")[0] ?? "";
  const chosen = await fetch(`${sent.headers.get("location")}&as=contributor`, { redirect: "manual" });
  const back = new URL(chosen.headers.get("location") ?? "");
  return {
    ...made,
    path,
    sent,
    cookie,
    back,
    comeBack: (url: URL, header: Record<string, string>) => made.get(`${url.pathname}${url.search}`, header),
  };
}

test("signing in with GitHub leads back to the run, and the token is revoked", async () => {
  const { sent, cookie, back, comeBack, get, path } = await beginSignIn();

  const returned = await comeBack(back, { cookie });
  const session = returned.headers.getSetCookie().find((one) => one.startsWith("golem-forge-session=")) ?? "";
  const page = await get(path, { cookie: session.split(";")[0] ?? "" });

  expect(new URL(sent.headers.get("location") ?? "").searchParams.get("redirect_uri")).not.toContain("abc1");
  expect([returned.status, returned.headers.get("location")]).toEqual([303, path]);
  expect(session).toMatch(/; Max-Age=7200; Path=\/; HttpOnly; SameSite=Lax$/);
  expect(page.text).toContain("signed in as contributor");
  expect(github.requests.slice(-2).map(({ operation, status }) => [operation, status])).toEqual([
    ["GET /user", 200],
    ["DELETE /applications/{client_id}/token", 204],
  ]);
});

test.each(["/runs", "/costs"])("signing in from %s leads back to it", async (path) => {
  const { back, cookie, comeBack } = await beginSignIn(path);

  const returned = await comeBack(back, { cookie });

  expect([returned.status, returned.headers.get("location")]).toEqual([303, path]);
});

describe("sign-in fails", () => {
  test.each<[string, (url: URL, cookie: string) => [URL, string]]>([
    ["in a browser that did not begin the sign-in", (url) => [url, ""]],
    ["with another state", (url, cookie) => [withParameter(url, "state", "x".repeat(32)), cookie]],
    ["without a state", (url, cookie) => [withParameter(url, "state", ""), cookie]],
    ["with a code that GitHub did not issue", (url, cookie) => [withParameter(url, "code", "0".repeat(20)), cookie]],
    ["without a code", (url, cookie) => [withParameter(url, "code", ""), cookie]],
    [
      "with a modified cookie",
      (url, cookie) => [url, cookie.replace(/\.(.)/, (_, one) => `.${one === "a" ? "b" : "a"}`)],
    ],
  ])("%s", async (_, change) => {
    const { back, cookie, comeBack } = await beginSignIn();
    const [url, held] = change(back, cookie);

    const answer = await comeBack(url, { cookie: held });

    expect(answer.status).toBe(400);
    expect(answer.headers.getSetCookie()).toEqual([]);
  });

  test("with a code that was already used", async () => {
    const { back, cookie, comeBack } = await beginSignIn();
    await comeBack(back, { cookie });

    expect((await comeBack(back, { cookie })).status).toBe(400);
  });

  test("with a code from another browser's sign-in", async () => {
    const { back, comeBack, get, path } = await beginSignIn();
    const other = await get(`/runs/-/sign-in?to=${encodeURIComponent(path)}`);
    const cookie = other.headers.get("set-cookie")?.split(";")[0] ?? "";
    const state = new URL(other.headers.get("location") ?? "").searchParams.get("state") ?? "";

    // The state is valid, but the code belongs to the other browser's verifier.
    expect((await comeBack(withParameter(back, "state", state), { cookie })).status).toBe(400);
  });

  test("ten minutes later", async () => {
    const { back, cookie, comeBack, clock } = await beginSignIn();
    clock.offset = 10 * 60_000 + 1;

    expect((await comeBack(back, { cookie })).status).toBe(400);
  });
});

test.each(["https://evil.example/", "//evil.example", "/runs/abc1", "/runs/abc1/x?y", "", "/\\evil.example"])(
  "sign-in redirects only to pages of ours, not to %j",
  async (to) => {
    const { get } = await world();

    expect((await get(`/runs/-/sign-in?to=${encodeURIComponent(to)}`)).status).toBe(404);
  },
);

test("signing out ends the session and links back to the run", async () => {
  const { startRun, url, signedIn, pathOf } = await world();
  await startRun("abc1");
  const { cookie, form } = signedIn("mia");

  const answer = await fetch(`${url}/runs/-/sign-out`, {
    method: "POST",
    headers: { cookie, origin: url },
    body: new URLSearchParams({ form, to: pathOf("abc1") }),
  });

  expect(answer.headers.get("set-cookie")).toMatch(/^golem-forge-session=; Max-Age=0;/);
  expect(await answer.text()).toContain(`href="${pathOf("abc1")}">Back to the run`);
});

test("over HTTPS, cookies are bound to the host and sent only securely", async () => {
  const cookies = createSealedCookies({ key: Buffer.from("a key"), secure: true, now: Date.now });
  const app = new Hono().get("/", (c) => {
    cookies.set(c, sessionCookie, { login: "mia", id: 3, nonce: "n" });
    return c.text(cookies.get(c, sessionCookie)?.login ?? "");
  });

  const first = await app.request("/");
  const header = first.headers.get("set-cookie") ?? "";
  const second = await app.request("/", { headers: { cookie: header.split(";")[0] ?? "" } });

  expect(header).toMatch(/^__Host-golem-forge-session=[\w.-]+; Max-Age=7200; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  expect(await second.text()).toBe("mia");
});

function withParameter(url: URL, name: string, value: string): URL {
  const changed = new URL(url);
  changed.searchParams.set(name, value);
  return changed;
}
