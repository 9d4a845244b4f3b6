import { Hono } from "hono";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { freePort } from "#playground/github/listen.ts";
import { deriveKey } from "#web/run-links.ts";
import { createSealedCookies, createSessions, sessionCookie } from "#web/sessions.ts";
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
  const begin = async () => {
    const sent = await made.get(`/runs/-/sign-in?to=${encodeURIComponent(path)}`);
    const cookie = sent.headers.get("set-cookie")?.split(";")[0] ?? "";
    const chosen = await fetch(`${sent.headers.get("location")}&as=contributor`, { redirect: "manual" });
    return { sent, cookie, back: new URL(chosen.headers.get("location") ?? "") };
  };
  return {
    ...made,
    ...(await begin()),
    path,
    begin,
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
  expect(returned.headers.getSetCookie()).toContainEqual(expect.stringMatching(/^golem-forge-sign-in=; Max-Age=0;/));
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

  test("sign-in fails with a code that was already used", async () => {
    const { back, cookie, comeBack } = await beginSignIn();
    await comeBack(back, { cookie });

    expect((await comeBack(back, { cookie })).status).toBe(400);
  });

  test("sign-in fails with a code from another browser's sign-in", async () => {
    const { back, comeBack, get, path } = await beginSignIn();
    const other = await get(`/runs/-/sign-in?to=${encodeURIComponent(path)}`);
    const cookie = other.headers.get("set-cookie")?.split(";")[0] ?? "";
    const state = new URL(other.headers.get("location") ?? "").searchParams.get("state") ?? "";

    // The state is valid, but the code belongs to the other browser's verifier.
    expect((await comeBack(withParameter(back, "state", state), { cookie })).status).toBe(400);
  });

  test("sign-in fails for an account that is not a person's", async () => {
    const { back, cookie, comeBack } = await beginSignIn();
    const restore = github.onRequest(({ operation }) =>
      operation === "GET /user" ? { status: 200, body: { login: "octo", id: 5, type: "Organization" } } : undefined,
    );

    const answer = await comeBack(back, { cookie });
    restore();

    expect(answer).toMatchObject({ status: 400, text: expect.stringContaining("Only user accounts can sign in.") });
  });

  test("sign-in fails while eight others wait for GitHub, and not after that", async () => {
    const { begin, comeBack } = await beginSignIn();
    const signIn = async () => {
      const { back, cookie } = await begin();
      return comeBack(back, { cookie });
    };
    const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>();
    const restore = github.onRequest(({ operation }) => (operation === "GET /user" ? answered : undefined));
    const attempts = Array.from({ length: 9 }, signIn);

    const first = await Promise.race(attempts);
    answer(undefined);
    const statuses = (await Promise.all(attempts)).map(({ status }) => status);
    restore();

    expect(first).toMatchObject({ status: 400, text: expect.stringContaining("Too many people are signing in.") });
    expect(statuses.toSorted()).toEqual([...Array.from({ length: 8 }, () => 303), 400]);
    expect((await signIn()).status).toBe(303);
  });

  test("sign-in fails ten minutes later", async () => {
    const { back, cookie, comeBack, clock } = await beginSignIn();
    clock.offset = 10 * 60_000 + 1;

    expect((await comeBack(back, { cookie })).status).toBe(400);
  });
});

const run = `/runs/octo/${"a".repeat(32)}`;

test.each([
  ...["https://evil.example/", "//evil.example", "/runs/abc1", "/runs/abc1/x?y", "", "/\\evil.example"],
  ...[
    "https://evil.example/runs",
    `//evil.example${run}`,
    `${run}/`,
    `${run}a`,
    "/runs.evil.example",
    "/costs@evil.example",
  ],
])("sign-in redirects only to pages of ours, not to %j", async (to) => {
  const { get } = await world();

  expect((await get(`/runs/-/sign-in?to=${encodeURIComponent(to)}`)).status).toBe(404);
});

test("signing out ends the session and links back to the run, and to no other site", async () => {
  const { startRun, get, url, signedIn, pathOf, store } = await world();
  const replica = await world({ store });
  await startRun("abc1");
  const mia = signedIn("mia");
  const onReplica = async () => (await replica.get("/runs", { cookie: mia.cookie })).text;
  expect(await onReplica()).not.toContain("Sign in with GitHub");
  const signOut = (to: string, { cookie, form } = mia) =>
    fetch(`${url}/runs/-/sign-out`, {
      method: "POST",
      headers: { cookie, origin: url },
      body: new URLSearchParams({ form, to }),
    });

  const answer = await signOut(pathOf("abc1"));

  expect(answer.headers.get("set-cookie")).toMatch(/^golem-forge-session=; Max-Age=0;/);
  expect(await answer.text()).toContain(`href="${pathOf("abc1")}">Back to the run`);
  expect((await get("/runs", { cookie: mia.cookie })).text).toContain("Sign in with GitHub");
  expect((await signOut(pathOf("abc1"))).status).toBe(401);
  replica.clock.offset += 5_000;
  expect(await onReplica()).toContain("Sign in with GitHub");
  const other = await signOut("https://evil.example/", signedIn("tom"));
  expect([other.status, (await other.text()).includes("evil.example")]).toEqual([200, false]);
});

test.each([
  [200, { "sec-fetch-site": "same-origin" }],
  [200, { origin: "null", "sec-fetch-site": "same-origin" }],
  [403, { origin: "null" }],
  [403, { origin: "null", "sec-fetch-site": "cross-site" }],
  [403, { "sec-fetch-site": "cross-site" }],
  [200, { "content-type": "Application/x-www-form-urlencoded" }],
  [415, { "content-type": "text/plain; application/x-www-form-urlencoded" }],
  [415, { "content-type": "application/x-www-form-urlencoded-not" }],
])("the answer is %d to a form with the headers %j", async (status, headers) => {
  const { post } = await world();

  expect((await post("/runs/-/sign-out", { as: "mia", headers })).status).toBe(status);
});

test("a session that ends while another request looks it up does not count again", async () => {
  const key = Buffer.from("a key");
  const cookies = createSealedCookies({ key, secure: false, now: Date.now });
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<boolean>();
  const hasRecorded = () => {
    asked.resolve();
    return answer.promise;
  };
  const keys = () => ({ hasRecorded, recordKey: async () => {} });
  const { current, end } = createSessions({ cookies, key, keys, now: Date.now });
  const app = new Hono()
    .get("/", async (c) => c.text((await current(c))?.login ?? "nobody"))
    .post("/", async (c) => c.text(String(await end(c))));
  const cookie = `golem-forge-session=${cookies.seal(sessionCookie, { login: "mia", id: 3, nonce: "n" })}`;
  const request = async (method: string) => (await app.request("/", { method, headers: { cookie } })).text();
  const looking = request("GET");
  await asked.promise;

  await request("POST");
  answer.resolve(false);

  expect([await looking, await request("GET")]).toEqual(["nobody", "nobody"]);
});

test("a session that another process has ended is looked up again when the clock was set back meanwhile", async () => {
  const key = Buffer.from("a key");
  const clock = { now: Date.now() };
  const now = () => clock.now;
  const cookies = createSealedCookies({ key, secure: false, now });
  const hasRecorded = vi.fn(async () => true).mockResolvedValueOnce(false);
  const { current } = createSessions({ cookies, key, keys: () => ({ hasRecorded, recordKey: async () => {} }), now });
  const app = new Hono().get("/", async (c) => c.text((await current(c))?.login ?? "nobody"));
  const cookie = `golem-forge-session=${cookies.seal(sessionCookie, { login: "mia", id: 3, nonce: "n" })}`;
  const login = async () => (await app.request("/", { headers: { cookie } })).text();
  expect([await login(), await login()]).toEqual(["mia", "mia"]);

  clock.now -= 60 * 60_000;

  expect(await login()).toBe("nobody");
});

test("a cookie counts only as its own kind, and a form only in its own session", async () => {
  const key = Buffer.from("a key");
  const cookies = createSealedCookies({ key, secure: false, now: Date.now });
  const keys = () => ({ hasRecorded: async () => false, recordKey: async () => {} });
  const { current, formKey } = createSessions({ cookies, key, keys, now: Date.now });
  const mia = { login: "mia", id: 3, nonce: "n" };
  const app = new Hono().get("/", async (c) => c.text((await current(c))?.login ?? "nobody"));
  const loginWith = async (kind: string) => {
    const cookie = `golem-forge-session=${cookies.seal({ ...sessionCookie, name: kind }, mia)}`;
    return (await app.request("/", { headers: { cookie } })).text();
  };

  expect([await loginWith("session"), await loginWith("sign-in")]).toEqual(["mia", "nobody"]);
  expect(new Set([mia, { ...mia, id: 4 }, { ...mia, nonce: "m" }].map(formKey)).size).toBe(3);
  expect(deriveKey("a secret", "forms")).not.toEqual(deriveKey("a secret", "cookies"));
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
