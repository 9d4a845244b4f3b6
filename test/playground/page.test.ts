import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PlaygroundWorld, shop } from "../support/playground-world.ts";

let world: PlaygroundWorld;

beforeAll(async () => {
  world = await PlaygroundWorld.start({ notice: "A scripted model answers." });
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

test("an issue and a comment of the page reach the app as webhooks", async () => {
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
  ["somebody who does not exist", threads, { as: "nobody", title: "Hello", body: "" }, 404],
  ["a visitor who closes what somebody else wrote", `${threads}/NUMBER/state`, { as: "visitor", state: "closed" }, 403],
  ["a thread that is not there", `${threads}/999/comments`, { as: "visitor", body: "Hello" }, 404],
])("%s gets a sentence", async (_, path, body, status) => {
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

test("the page runs nothing that is not its own file", async () => {
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

const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) =>
  existsSync(path),
);

describe.skipIf(!browserPath)(`in a browser${browserPath ? "" : " (skipped: there is none on this machine)"}`, () => {
  test("a person opens an issue, comments, and sees the bot's comment appear and change", {
    timeout: 60_000,
  }, async () => {
    const browser = await chromium.launch({ executablePath: browserPath ?? "", args: ["--no-sandbox"] });
    const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    const octokit = await world.client();

    await page.goto(world.github.url);
    await page.getByText("A scripted model answers.").waitFor();
    await page.getByRole("link", { name: "New issue" }).click();
    await page.getByLabel("Title").fill("Seen live");
    await page.getByRole("button", { name: "Open the issue" }).click();
    await page.getByRole("heading", { name: "Seen live" }).waitFor();
    const issue_number = Number(new URL(page.url()).pathname.split("/").at(-1));
    await page.getByRole("button", { name: "Run fixer" }).click();
    await page.getByRole("button", { name: "Comment", exact: true }).click();
    await page.getByText("/run fixer").waitFor();
    const { data } = await octokit.rest.issues.createComment({ ...shop, issue_number, body: "- [ ] Looking" });
    await page.getByText("☐ Looking").waitFor();
    await octokit.rest.issues.updateComment({ ...shop, comment_id: data.id, body: "- [x] Looking" });
    await page.getByText("☑ Looking").waitFor();
    const width = await page.evaluate("document.documentElement.scrollWidth");
    await browser.close();

    expect(width).toBe(390);
    expect(problems).toEqual([]);
  });
});
