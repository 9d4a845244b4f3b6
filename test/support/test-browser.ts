import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";

/** The path of the installed browser; undefined if there is none. */
export const browserPath: string | undefined = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((path) => existsSync(path));

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Starts the browser. `problems` are the errors of all pages. */
export async function startBrowser() {
  const args = ["--no-sandbox", "--disable-gpu"];
  const browser = await chromium.launch({ executablePath: browserPath ?? "", args });
  const problems: string[] = [];

  async function openPage(options: Parameters<Browser["newPage"]>[0]): Promise<Page> {
    const page = await browser.newPage(options);
    page.setDefaultTimeout(120_000);
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => {
      // The test interrupts the connection.
      if (message.type() === "error" && !/ERR_(?:CONNECTION|INCOMPLETE)/.test(message.text()))
        problems.push(message.text());
    });
    return page;
  }

  return { problems, openPage, close: () => browser.close() };
}

/** The violations of accessibility rules that axe finds in the light theme, and of contrast in the dark one. */
export async function violationsOn(page: Page): Promise<string[]> {
  const check = async (options: string, program = "") =>
    (await page.evaluate(`(() => { ${program}; return axe.run(${options}).then(({ violations }) =>
      violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ": " + html)))})()`)) as string[];
  await page.emulateMedia({ colorScheme: "light" });
  const found = await check("", axe);
  await page.emulateMedia({ colorScheme: "dark" });
  return [...found, ...(await check('{ runOnly: ["color-contrast"] }'))];
}
