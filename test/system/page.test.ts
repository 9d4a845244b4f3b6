import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { fixScript } from "../support/fix-story.ts";
import { type Forge, type ForgeOptions, startForge } from "../support/forge-world.ts";
import { commitTo, PlaygroundWorld, shop } from "../support/playground-world.ts";
import { browserPath, startBrowser, violationsOn } from "../support/test-browser.ts";

/** Fixes the bug, and asks again with another title when the pull request is denied. Asks a question if the task says so. */
const script: ForgeOptions["script"] = (request) => {
  const { messages } = request;
  if (JSON.stringify(messages).includes("Ask first")) {
    const answer = messages.at(-1);
    if (answer?.role === "tool") return { text: `The answer was ${JSON.stringify(answer.content)}.` };
    const question = `Which *color*?\n\n| color |\n|---|\n| ${"x".repeat(200)} |\n`;
    return { calls: [{ name: "ask_user", args: { question, options: ["Red", "Green"] } }] };
  }
  return JSON.stringify(messages.at(-1)).includes("Say what was wrong")
    ? { calls: [{ name: "open_pull_request", args: { title: "The total was one too high", body: "One too many." } }] }
    : fixScript(request);
};

/**
 * Describes the visible elements in their order: colors and texts, and for blocks the place and the width. Leaves out what
 * depends on the fonts of a machine: heights, and the widths of texts.
 */
const describeLayout = `(() => {
  const blocks = "nav, header, main, aside, section, article, pre, textarea, .changes, .runs li";
  const texts = "h1, h2, button, .button, .badge, summary, label";
  const lines = ["document " + document.documentElement.scrollWidth + " wide"];
  for (const element of document.querySelectorAll(blocks + ", " + texts)) {
    if (!element.checkVisibility({ visibilityProperty: true }) || element.matches(".skip")) continue;
    const { left, width } = element.getBoundingClientRect();
    const { color, backgroundColor } = getComputedStyle(element);
    const copy = element.cloneNode(true);
    for (const changing of copy.querySelectorAll("code, time")) changing.textContent = "…";
    const name = element.tagName.toLowerCase() + (element.classList.length > 0 ? "." + element.classList[0] : "");
    const place = element.matches(blocks) ? " at " + Math.round(left) + ", " + Math.round(width) + " wide" : "";
    const text = element.matches(texts) ? " " + JSON.stringify(copy.textContent.replace(/\\s+/g, " ").replace(/ · [\\d.]+ s/, "").trim()) : "";
    lines.push(name + place + text + " " + color + " on " + backgroundColor);
  }
  return lines;
})()`;

describe.skipIf(!browserPath)(`in a browser${browserPath ? "" : " (skipped: no browser is installed)"}`, () => {
  let browser: Awaited<ReturnType<typeof startBrowser>>;

  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());

  test("a person opens a run from its thread, signs in, approves on a phone, and watches it finish", async () => {
    const forge = await startForge({ script: fixScript });
    onTestFinished(forge.close);
    await forge.startProcess();
    const { github, botComment } = forge;
    const issue = github.as("visitor").openIssue({ title: "The total is one too high", body: "Two items give 3." });
    github.as("maintainer").comment(issue.number, "/run fixer");
    const request = await botComment(issue.number, /asks for approval/);
    const address = /\[Watch this run\]\(([^)]+)\)/.exec(request.body)?.[1] ?? "";

    // Without JavaScript the page shows the current state.
    const plain = await browser.openPage({ javaScriptEnabled: false });
    await plain.goto(address);
    await plain.getByRole("heading", { name: /asks for approval/ }).waitFor();
    await plain.getByText("+export const total = (items) => items.length;").first().waitFor();

    await plain.getByRole("link", { name: "Sign in with GitHub" }).first().click();
    await plain.getByRole("link", { name: "contributor" }).click();
    await plain.getByLabel("Message the worker").fill("take your time");
    await plain.getByRole("button", { name: "Send" }).click();
    await plain.getByText("signed in as contributor").waitFor();
    await plain.getByText("take your time").waitFor();
    await plain.getByRole("button", { name: "Sign out" }).click();
    await plain.getByText("You're signed out.").waitFor();
    await plain.close();

    const page = await browser.openPage({ viewport: { width: 390, height: 844 } });
    await page.goto(address);
    await page.locator(".badge", { hasText: "Waiting for approval" }).waitFor();
    await page.getByRole("link", { name: "Sign in with GitHub" }).first().click();
    await page.getByRole("link", { name: "maintainer" }).click();
    await page.getByText("signed in as maintainer").waitFor();
    await page.getByLabel("Reason (sent to the worker)").fill("still typing");
    // The page can lose its connection only after its script was loaded.
    await page.locator("#latest").waitFor({ state: "attached" });

    // The app is killed. The page reconnects, the person is still signed in, and the typed reason is kept.
    await forge.end("SIGKILL");
    await page.locator("body.offline").waitFor();
    await forge.startProcess();
    await page.locator("body:not(.offline)").waitFor();
    const typed = await page.getByLabel("Reason (sent to the worker)").inputValue();
    const width = await page.evaluate("document.documentElement.scrollWidth");
    await page.getByRole("button", { name: "Approve", exact: true }).click();

    await page.locator(".badge", { hasText: "Waiting for review" }).waitFor();
    const pull = Number(
      /\d+/.exec((await page.getByRole("link", { name: /^Pull request #/ }).textContent()) ?? "")?.[0],
    );
    await page.getByText("Fixed: every item counts once.").first().waitFor();
    await page.getByText(/approved \w+ on the run page/).waitFor();
    const ends = await page.getByRole("heading", { name: /asks for approval/ }).count();
    await botComment(issue.number, /### ✅ Approved by maintainer on the run page/);
    github.as("maintainer").markReady(pull);
    await github.as("maintainer").merge(pull);
    await page.locator(".badge", { hasText: "Done" }).waitFor();
    await botComment(issue.number, /\[See the whole run\]/);
    const violations = await violationsOn(page);
    await page.goto(new URL("/nothing-here", address).href);
    await page.getByText("Page not found.").waitFor();
    await page.getByRole("link", { name: "All runs" }).click();

    // The browser reports the page that does not exist.
    expect(browser.problems.splice(0)).toEqual([expect.stringContaining("404")]);
    expect(violations).toEqual([]);
    expect([width, ends, typed]).toEqual([390, 0, "still typing"]);
    expect(browser.problems).toEqual([]);
    expect(github.unknownRequests()).toEqual([]);
    // An open page does not keep the app from stopping.
    expect(await forge.end("SIGTERM")).toBe(0);
    await page.close();
  });

  describe("the pages of runs", () => {
    let forge: Forge;

    beforeAll(async () => {
      forge = await startForge({ script });
      await forge.start();
    });
    afterAll(() => forge.close());

    test("axe reports nothing on the pages of a run that waits and of one that has ended, on the list, and after signing out", async () => {
      const { github, botComment } = forge;
      const issue = github.as("visitor").openIssue({ title: "One too many", body: "Two items give 3." });
      github.as("maintainer").comment(issue.number, "/run fixer");
      const request = await botComment(issue.number, /asks for approval/);
      const address = /\[Watch this run\]\(([^)]+)\)/.exec(request.body)?.[1] ?? "";
      const violations: Record<string, string[]> = {};

      const page = await browser.openPage({ viewport: { width: 1280, height: 900 } });
      await page.goto(`${new URL(address).origin}/`);
      violations.welcome = await violationsOn(page);
      await page.getByRole("link", { name: "Sign in with GitHub" }).click();
      await page.getByRole("link", { name: "maintainer" }).click();
      await page.getByRole("link", { name: "One too many" }).first().waitFor();
      violations.list = await violationsOn(page);
      await page.goto(address);
      violations.waiting = await violationsOn(page);
      await page.getByLabel("Viewed: src/total.js").check();
      const folded = await page.locator(".approval .diff").isHidden();
      await page.getByLabel("Reason (sent to the worker)").fill("Say what was wrong");
      await page.getByRole("button", { name: "Deny" }).click();
      // Screen readers are told about the next request.
      await page.getByRole("status").filter({ hasText: "fixer asks for approval" }).waitFor();
      const focused = await page.evaluate("document.activeElement.id");
      await page.locator("summary", { hasText: "Cancel" }).click();
      await page.getByRole("button", { name: "Cancel all workers" }).click();
      await page.locator(".badge", { hasText: "Cancelled" }).waitFor();
      violations.ended = await violationsOn(page);
      await page.setViewportSize({ width: 390, height: 844 });
      violations.phone = await violationsOn(page);
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByText("You're signed out.").waitFor();
      violations.signedOut = await violationsOn(page);
      await page.getByRole("link", { name: "Back to the run" }).click();
      await page.getByRole("heading", { name: "One too many" }).waitFor();
      await page.close();

      expect([folded, focused]).toEqual([true, "main"]);
      expect(violations).toEqual({ welcome: [], list: [], waiting: [], ended: [], phone: [], signedOut: [] });
      expect(browser.problems).toEqual([]);
    });

    test("a person answers a question that has a wide table on a phone with one of its buttons", async () => {
      const { github, botComment } = forge;
      const issue = github.as("visitor").openIssue({ title: "A color", body: "It needs one." });
      github.as("maintainer").comment(issue.number, "/run fixer Ask first");
      const status = await botComment(issue.number, /is waiting for you/);
      const address = /\[Watch this run\]\(([^)]+)\)/.exec(status.body)?.[1] ?? "";

      const page = await browser.openPage({ viewport: { width: 390, height: 844 } });
      await page.goto(address);
      await page.getByRole("link", { name: "Sign in with GitHub" }).first().click();
      await page.getByRole("link", { name: "maintainer" }).click();
      await page.locator("#latest").waitFor({ state: "attached" });
      const width = await page.evaluate("document.documentElement.scrollWidth");
      const violations = await violationsOn(page);
      await page.getByRole("button", { name: "Green" }).click();

      expect([width, violations]).toEqual([390, []]);
      expect((await botComment(issue.number, /The answer was/)).body).toContain("Green");
      await page.close();
      expect(browser.problems).toEqual([]);
    });

    test("the pages have the layout and the colors of the pictures in the documentation", async () => {
      const { github, botComment } = forge;
      const issue = github.as("visitor").openIssue({ title: "Pictured", body: "Two items give 3." });
      github.as("maintainer").comment(issue.number, "/run fixer");
      const request = await botComment(issue.number, /asks for approval/);
      const address = /\[Watch this run\]\(([^)]+)\)/.exec(request.body)?.[1] ?? "";
      const page = await browser.openPage({ viewport: { width: 1440, height: 900 } });
      await page.goto(address);
      await page.getByRole("link", { name: "Sign in with GitHub" }).first().click();
      await page.getByRole("link", { name: "maintainer" }).click();
      await page.getByRole("button", { name: "Approve", exact: true }).waitFor();

      const layouts: string[] = [];
      const pages = { "waiting run": address, runs: `${new URL(address).origin}/runs?text=Pictured` };
      for (const [name, url] of Object.entries(pages)) {
        await page.goto(url);
        await page.locator("h1").waitFor();
        for (const width of [390, 768, 1440]) {
          for (const colorScheme of ["light", "dark"] as const) {
            await page.setViewportSize({ width, height: 900 });
            await page.emulateMedia({ colorScheme });
            layouts.push(
              `## ${name}, ${width} px, ${colorScheme}`,
              ...((await page.evaluate(describeLayout)) as string[]),
              "",
            );
          }
        }
      }
      await page.close();

      // If a change is intended: update the file with `vitest -u`, and the pictures with `node scripts/screenshots.ts`.
      await expect(layouts.join("\n")).toMatchFileSnapshot("../../docs/images/layout.txt");
    });
  });

  describe("the pages of the local GitHub", () => {
    let world: PlaygroundWorld;

    beforeAll(async () => {
      world = await PlaygroundWorld.start({ notice: "A scripted model answers." });
    });
    afterAll(() => world.close());

    test("a person opens an issue, comments, and sees the bot's comment appear and change", async () => {
      const page = await browser.openPage({ viewport: { width: 390, height: 844 } });
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
      expect(browser.problems).toEqual([]);
      await page.close();
    });

    test("a person filters the changed files of a pull request, and sees them as a tree", async () => {
      const page = await browser.openPage({ viewport: { width: 390, height: 844 } });
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
      expect(browser.problems).toEqual([]);
      await page.close();
    });

    test("a person reviews lines of a pull request, marks it ready and merges it", async () => {
      const page = await browser.openPage({ viewport: { width: 390, height: 844 } });
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
      expect(pull).toMatchObject({
        merged: true,
        reviews: [{ state: "CHANGES_REQUESTED", body: "Please explain" }, {}],
      });
      expect(pull?.reviews[0]?.comments).toMatchObject([{ path: "src/total.js", line: 1, resolved: true }]);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
      expect(browser.problems).toEqual([]);
      await page.close();
    });
  });
});
