import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fixScript } from "../support/fix-story.ts";
import { type Forge, startForge } from "../support/forge-world.ts";
import { browserPath, startBrowser, violationsOn } from "../support/test-browser.ts";

describe.skipIf(!browserPath)(`in a browser${browserPath ? "" : " (skipped: no browser is installed)"}`, () => {
  let forge: Forge;
  let browser: Awaited<ReturnType<typeof startBrowser>>;

  beforeAll(async () => {
    forge = await startForge({ script: fixScript });
    browser = await startBrowser();
    await forge.startProcess();
  });
  afterAll(async () => {
    await browser?.close();
    await forge?.close();
  });

  test("a person opens a run from its thread, signs in, approves on a phone, and watches it finish", async () => {
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
    await page.getByText("There is no page at this address.").waitFor();
    await page.getByRole("link", { name: "All runs" }).click();

    // The browser reports the page that does not exist.
    expect(browser.problems.splice(0)).toEqual([expect.stringContaining("404")]);
    expect(violations).toEqual([]);
    expect([width, ends, typed]).toEqual([390, 0, "still typing"]);
    expect(browser.problems).toEqual([]);
    expect(github.unknownRequests()).toEqual([]);
    // An open page does not keep the app from stopping.
    expect(await forge.end("SIGTERM")).toBe(0);
  });
});
