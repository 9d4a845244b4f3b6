import { existsSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { commitTo, PlaygroundWorld, shop } from "../support/playground-world.ts";

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

const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) =>
  existsSync(path),
);

describe.skipIf(!browserPath)(`in a browser${browserPath ? "" : " (skipped: none is installed)"}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: browserPath ?? "", args: ["--no-sandbox", "--disable-gpu"] });
  });
  afterAll(() => browser.close());

  /** Opens a page as narrow as a phone, and collects the errors it reports. */
  async function openPage(): Promise<{ page: Page; problems: string[] }> {
    const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
    page.setDefaultTimeout(120_000);
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    return { page, problems };
  }

  test("a person opens an issue, comments, and sees the bot's comment appear and change", async () => {
    const { page, problems } = await openPage();
    const octokit = await world.client();

    await page.goto(world.github.url);
    await page.getByText("A scripted model answers.").waitFor();
    await page.getByRole("link", { name: "New issue" }).click();
    await page.getByLabel("Title").fill("Seen live");
    await page.getByRole("button", { name: "Create issue" }).click();
    await page.getByRole("heading", { name: "Seen live" }).waitFor();
    const issue_number = Number(new URL(page.url()).pathname.split("/").at(-1));
    await page.getByRole("button", { name: "Run fixer" }).click();
    await page.getByRole("button", { name: "Comment", exact: true }).click();
    await page.getByText("/run fixer").waitFor();
    const { data } = await octokit.rest.issues.createComment({ ...shop, issue_number, body: "- [ ] Looking" });
    await page.getByText("☐ Looking").waitFor();
    await octokit.rest.issues.updateComment({ ...shop, comment_id: data.id, body: "- [x] Looking" });
    await page.getByText("☑ Looking").waitFor();
    world.github.notice = "The app has been restarted. A scripted model answers.";
    await page.getByText("The app has been restarted.").waitFor();
    world.github.notice = "A scripted model answers.";

    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    expect(problems).toEqual([]);
  });

  test("a person filters the changed files of a pull request, and sees them as a tree", async () => {
    const { page, problems } = await openPage();
    const { github } = world;
    const names = ["src/a/one.js", "src/a/two.js", "src/b/naïve café 🎉.js", "NOTES.md"];
    await commitTo(github, "many", Object.fromEntries(names.map((name) => [name, "export const x = 1;\n"])));
    const { number } = await github.as("contributor").openPullRequest({ title: "Many", head: "many", base: "main" });
    const shown = () => page.locator(".reviewed:visible summary code").allTextContents();

    await page.goto(`${github.url}/playground/shop/pull/${number}`);
    await page.getByText("4 files changed").waitFor();
    const tree = await page.locator(".tree :is(summary, a)").allTextContents();
    await page.getByLabel("Filter files").fill("café b/");
    const filtered = await shown();
    await page.getByLabel("Viewed: src/b/naïve café 🎉.js").check();
    await page.getByRole("button", { name: "Comment on line 1" }).first().waitFor({ state: "hidden" });
    await page.getByLabel("Filter files").fill("nothing has this name");
    await page.getByText("No file matches.").waitFor();
    await page.getByLabel("Filter files").fill("");

    expect(tree).toEqual(["src", "a", "one.js", "two.js", "b", "naïve café 🎉.js", "NOTES.md"]);
    expect(filtered).toEqual(["src/b/naïve café 🎉.js"]);
    expect(await shown()).toHaveLength(4);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    expect(problems).toEqual([]);
  });

  test("a person reviews lines of a pull request, marks it ready and merges it", async () => {
    const { page, problems } = await openPage();
    const { github } = world;
    await commitTo(github, "work", { "src/total.js": "export const total = 2;\n" });
    const contributor = github.as("contributor");
    const { number } = await contributor.openPullRequest({ title: "Two", head: "work", base: "main", draft: true });
    (await github.checks("work")).report("tests", { conclusion: "failure", title: "1 failed" });

    await page.goto(`${github.url}/playground/shop/pull/${number}`);
    await page.getByText("1 failed").waitFor();
    await page.getByRole("button", { name: "Comment on line 1" }).last().click();
    await page.getByRole("textbox", { name: "Comment on line 1" }).fill("Why two?");
    await page.getByRole("button", { name: "Add to review" }).click();
    await page.getByText("1 comment will be submitted").waitFor();
    await page.getByLabel("Summary").fill("Please explain");
    await page.getByRole("button", { name: "Request changes" }).click();
    await page.getByText("maintainer requested changes").waitFor();
    await page.getByPlaceholder("Reply").fill("Because");
    await page.getByRole("button", { name: "Reply" }).click();
    await page.getByText("Because").waitFor();
    await page.getByRole("button", { name: "Resolve" }).click();
    await page.getByRole("button", { name: "Ready for review" }).click();
    await page.getByRole("button", { name: "Merge pull request" }).click();
    await page.getByText("Merged", { exact: true }).waitFor();

    const pull = (await github.snapshot())["playground/shop"]?.pulls.find((one) => one.number === number)?.pull;
    expect(pull).toMatchObject({ merged: true, reviews: [{ state: "CHANGES_REQUESTED", body: "Please explain" }, {}] });
    expect(pull?.reviews[0]?.comments).toMatchObject([{ path: "src/total.js", line: 1, resolved: true }]);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    expect(problems).toEqual([]);
  });
});
