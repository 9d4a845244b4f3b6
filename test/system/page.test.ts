import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fixScript } from "../support/fix-story.ts";
import { type Forge, type ForgeOptions, startForge } from "../support/forge-world.ts";
import { browserPath, startBrowser, violationsOn } from "../support/test-browser.ts";

/** Fixes the bug, and asks again with another title when the pull request is denied. Asks a question if the task says so. */
const script: ForgeOptions["script"] = (request) => {
  const { messages } = request;
  if (JSON.stringify(messages).includes("Ask first")) {
    const answer = messages.at(-1);
    if (answer?.role === "tool") return { text: `The answer was ${JSON.stringify(answer.content)}.` };
    return { calls: [{ name: "ask_user", args: { question: "Which *color*?", options: ["Red", "Green"] } }] };
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
  let forge: Forge;
  let browser: Awaited<ReturnType<typeof startBrowser>>;

  beforeAll(async () => {
    forge = await startForge({ script });
    browser = await startBrowser();
    await forge.start();
  });
  afterAll(async () => {
    await browser?.close();
    await forge?.close();
  });

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

    expect(folded).toBe(true);
    expect(violations).toEqual({ welcome: [], list: [], waiting: [], ended: [], phone: [], signedOut: [] });
    expect(browser.problems).toEqual([]);
  });

  test("a person answers a question with one of its buttons", async () => {
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
    await page.getByRole("button", { name: "Green" }).click();

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
