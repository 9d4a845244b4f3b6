import { afterAll, beforeAll, expect, test } from "vitest";
import { PlaygroundWorld } from "../support/playground-world.ts";

let world: PlaygroundWorld;

beforeAll(async () => {
  world = await PlaygroundWorld.start();
});
afterAll(() => world.close());

function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${world.github.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

const threads = "/-/repositories/playground/shop/threads";

test("an issue and a comment made on the page are delivered to the app", async () => {
  const opened = await post(threads, { as: "visitor", title: "From the page", body: "Hello" });
  const { number } = (await opened.json()) as { number: number };

  const commented = await post(`${threads}/${number}/comments`, { as: "contributor", body: "/run fixer" });
  await world.github.deliveriesSettled();

  expect([opened.status, commented.status]).toEqual([201, 201]);
  expect(world.received.at(-1)?.payload).toMatchObject({
    comment: { body: "/run fixer" },
    sender: { login: "contributor" },
  });
});

test.each([
  ["an empty comment", `${threads}/NUMBER/comments`, { as: "visitor", body: " " }, 422],
  ["an issue without a title", threads, { as: "visitor", title: "", body: "" }, 422],
  ["an unknown user", threads, { as: "nobody", title: "Hello", body: "" }, 404],
  ["closing somebody else's issue as a visitor", `${threads}/NUMBER/state`, { as: "visitor", state: "closed" }, 403],
  ["a comment on an unknown issue", `${threads}/999/comments`, { as: "visitor", body: "Hello" }, 404],
  ["merging an issue", `${threads}/NUMBER/merge`, { as: "maintainer" }, 404],
])("%s is refused with a message", async (_, path, body, status) => {
  const { number } = world.github.as("maintainer").openIssue({ title: "One" });

  const answer = await post(path.replace("NUMBER", String(number)), body);

  expect(answer.status).toBe(status);
  expect(await answer.json()).toEqual({ message: expect.stringMatching(/\w/) });
});

test.each([
  ["another site", { origin: "http://evil.example", "sec-fetch-site": "cross-site" }],
  ["a form without JSON", { "content-type": "text/plain" }],
  ["a page on another port", { origin: "http://127.0.0.1:1", "sec-fetch-site": "same-site" }],
])("%s cannot act as the maintainer", async (_, headers) => {
  const before = await world.github.snapshot();

  const answer = await post(threads, { as: "maintainer", title: "Forged", body: "" }, headers);

  expect(answer.status).toBe(403);
  expect(await world.github.snapshot()).toEqual(before);
});

test("the page runs only its own scripts", async () => {
  const answer = await fetch(`${world.github.url}/playground/shop/issues/1`);

  expect(answer.headers.get("content-security-policy")).toMatch(/default-src 'none'; script-src 'self';/);
  expect(await answer.text()).not.toMatch(/<script(?![^>]*src=)|\son\w+=|<style/);
});

test.each(["/-/assets/../answer-page.ts", "/-/assets/%2e%2e%2fanswer-page.ts", "/-/assets/nothing.js"])(
  "%s is not served",
  async (path) => {
    expect((await fetch(`${world.github.url}${path}`)).status).toBe(404);
  },
);
