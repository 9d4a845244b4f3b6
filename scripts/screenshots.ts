/**
 * Takes screenshots of the demo in a headless Chromium.
 *
 * usage: node scripts/screenshots.ts [directory]
 *
 * Without a directory, updates the images of `README.md` in `docs/images/`; install a font with emoji first. With a directory,
 * writes every page to it at 390, 900 and 1440 pixels, light and dark, to review changes of the pages' appearance.
 *
 * Pixels depend on the fonts of a machine, so tests compare `docs/images/layout.txt` and `docs/images/terminal-*.ansi` with
 * the current output instead. Take the screenshots again when one of these files changes.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { type Playground, startPlayground } from "#playground/demo/start-playground.ts";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const images = fileURLToPath(new URL("../docs/images/", import.meta.url));
const timeoutMs = 60_000;

const terminalColors: Record<string, string> = {
  ...{ "1": "font-weight:700", "3": "font-style:italic", "31": "color:#ff8078", "32": "color:#4cc464" },
  ...{ "33": "color:#e3b341", "34": "color:#6cb0ff", "36": "color:#56d4dd", "90": "color:#9aa4af" },
};

interface Shot {
  name: string;
  width: number;
  theme: "light" | "dark";
}

const directory = process.argv[2];
const playground = await startPlayground({ port: 0, model: undefined, environment: process.env });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  await takeAll(playground, browser, directory);
} finally {
  await browser.close();
  await playground.close();
}

async function takeAll({ github, issue }: Playground, browser: Browser, target: string | undefined): Promise<void> {
  const session = await browser.newContext({ viewport: { width: 1280, height: 900 }, deviceScaleFactor: 1 });
  const page = await session.newPage();
  github.as("maintainer").comment(issue.number, "/run fixer");
  const link = await botComment(github, issue.number, /asks for approval/);
  const run = /\[Watch this run\]\(([^)]+)\)/.exec(link)?.[1] ?? "";
  await signIn(page, run);
  await page.getByRole("button", { name: "Approve", exact: true }).waitFor();

  if (target === undefined) {
    await page.setViewportSize({ width: 1280, height: 1320 });
    await page.screenshot({ path: join(images, "run-page.png") });
    await page.setViewportSize({ width: 900, height: 900 });
    await page.goto(issue.url);
    await page.screenshot({ path: join(images, "thread.png"), fullPage: true });
    await takeTerminal(await session.newPage());
    return;
  }
  mkdirSync(target, { recursive: true });
  const runs = `${new URL(run).origin}/runs`;
  await everySize(page, { waiting: run, runs }, target);
  await page.goto(run);
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByRole("link", { name: /^Pull request #/ }).waitFor({ timeout: timeoutMs });
  await everySize(page, { reviewed: run }, target);
}

/** Takes a screenshot of the terminal output that a test has written to `terminal-100.ansi`. */
async function takeTerminal(page: Page): Promise<void> {
  const screen = readFileSync(join(images, "terminal-100.ansi"), "utf8").trimEnd();
  const markup = screen
    .replace(/[&<]/g, (character) => (character === "&" ? "&amp;" : "&lt;"))
    // biome-ignore lint/suspicious/noControlCharactersInRegex: formats begin with one
    .replace(/\u001b\[([\d;]+)m/g, (_, codes: string) =>
      codes === "0"
        ? "</span>"
        : `<span style="${codes
            .split(";")
            .map((code) => terminalColors[code])
            .join(";")}">`,
    );
  await page.setViewportSize({ width: 940, height: 400 });
  await page.setContent(
    `<body style="margin:0;background:#0d1117"><pre style="margin:0;padding:16px;color:#e6edf3;font:14px/1.4 ui-monospace,monospace">${markup}</pre>`,
  );
  await page.screenshot({ path: join(images, "terminal.png"), fullPage: true });
}

async function signIn(page: Page, run: string): Promise<void> {
  await page.goto(run);
  await page.getByRole("link", { name: "Sign in with GitHub" }).first().click();
  await page.getByRole("link", { name: "maintainer" }).click();
  await page.getByText("signed in as maintainer").waitFor();
}

async function everySize(page: Page, pages: Record<string, string>, target: string): Promise<void> {
  const shots = Object.keys(pages).flatMap((name) =>
    [390, 900, 1440].flatMap((width): Shot[] => [
      { name, width, theme: "light" },
      { name, width, theme: "dark" },
    ]),
  );
  for (const { name, width, theme } of shots) {
    // As high as the page, so that fixed elements are at its end.
    await page.setViewportSize({ width, height: name === "runs" ? 600 : 2600 });
    await page.emulateMedia({ colorScheme: theme });
    await page.goto(pages[name] ?? "");
    await page.screenshot({ path: join(target, `${name}-${width}-${theme}.png`) });
  }
}

/** Resolves to the App's first comment that matches. */
function botComment(github: Playground["github"], thread: number, pattern: RegExp): Promise<string> {
  return github.until(
    (snapshot) =>
      Object.values(snapshot)[0]
        ?.issues.find(({ number }) => number === thread)
        ?.comments.find(({ author, body }) => author === github.botLogin && pattern.test(body))?.body,
    { timeoutMs },
  );
}
