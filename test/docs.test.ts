import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { DeploymentPolicy } from "#config/deployment-policy.ts";
import { ActionEnvironment, Environment } from "#config/environment.ts";
import { RepositorySettings } from "#config/repository-settings.ts";
import { parseWorker } from "#domain/worker.ts";
import { type CommandName, commandHelp, helpText } from "#terminal/golem/help.ts";
import { tableRows } from "./support/named-tests.ts";

/** The code blocks of STYLE.md, each with the file it is taken from. */
const snippets = [...readFileSync("STYLE.md", "utf8").matchAll(/^```ts (\S+)\n([\s\S]*?)^```$/gm)].map(
  ([, file = "", code = ""]) => ({ file, code }),
);

test.each(snippets)("STYLE.md quotes $file as it is", ({ file, code }) => {
  const source = readFileSync(file, "utf8");
  const parts = code.split(/^\s*\/\/ …\n/m);

  expect(parts.filter((part) => !source.includes(part))).toEqual([]);
});

test("STYLE.md has examples", () => {
  expect(snippets.length).toBeGreaterThan(5);
});

/** The code blocks of the README and the documents, except those that are generated. */
const documents = ["README.md", ...globSync("docs/*.md")].filter((file) => file !== "docs/reference.md");
const blocks = documents.flatMap((file) =>
  [...readFileSync(file, "utf8").matchAll(/^ *```(\w+)[^\n]*\n([\s\S]*?)^ *```$/gm)].map(
    ([, language = "", code = ""]) => ({ file, language, code }),
  ),
);
const blocksOf = (language: string) => blocks.filter((block) => block.language === language);

test("every language of an example has a check", () => {
  // The TypeScript examples are compiled and run by test/system/package.test.ts and the tests of their documents.
  expect([...new Set(blocks.map(({ language }) => language))].sort()).toEqual(["markdown", "sh", "ts", "yaml"]);
});

test.each(documents)("the commands in %s exist, with their options", (file) => {
  const spans = [...readFileSync(file, "utf8").matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
  const code = [...spans, ...blocksOf("sh").flatMap((block) => (block.file === file ? [block.code] : []))].join("\n");
  const commands = [...code.matchAll(/(?<=^|[ "])golem ([a-z]+)((?: +[^\s#]+)*)/gm)];

  const wrong = commands.filter(([, name = "", rest = ""]) => {
    if (!isCommandName(name)) return true;
    const help = `${helpText(name)}${name === "run" || name === "resume" ? helpText() : ""}`;
    const options = rest.split(" -- ")[0]?.match(/(?<= )--[a-z-]+/g) ?? [];
    return options.some((option) => !help.includes(option) && !["--help", "--no-color"].includes(option));
  });

  expect(wrong.map(([line]) => line)).toEqual([]);
});

test.each(["AGENTS.md", "docs/architecture.md"])("the files that %s names exist", (document) => {
  const files = globSync(["{src,playground,test,scripts}/**/*.{ts,js}", "*.ts"]);
  const named = [...readFileSync(document, "utf8").matchAll(/`(\w[\w/.-]*\.[jt]s)`/g)].map(([, name = ""]) => name);

  const unknown = named.filter((name) => !files.some((file) => file === name || file.endsWith(`/${name}`)));

  expect(unknown).toEqual([]);
});

test("settings in shell examples are ones that the programs read", () => {
  const known = { ...Environment.shape, ...ActionEnvironment.shape };
  const others = ["NODE_USE_ENV_PROXY", "HTTPS_PROXY", "NO_PROXY", "PGPASSWORD"];
  const names = blocksOf("sh").flatMap(({ code }) => code.match(/\b[A-Z][A-Z0-9_]+(?==)/g) ?? []);

  expect(names.filter((name) => !(name in known) && !others.includes(name))).toEqual([]);
  expect(names.length).toBeGreaterThan(5);
});

test("examples of the policy, of settings and of other YAML are valid", () => {
  const parsed = blocksOf("yaml").map(({ file, code }) => ({ file, value: parse(code) }));
  const configuration = parsed.filter(({ file }) => file === "docs/configuration.md").map(({ value }) => value);
  const policies = configuration.filter((value) => "cost_per_day" in value);
  const settings = configuration.filter((value) => !("cost_per_day" in value));

  expect(policies.map((value) => DeploymentPolicy.parse(value))).toHaveLength(1);
  expect(settings.map((value) => RepositorySettings.parse(value)).length).toBeGreaterThan(1);
  expect(parsed.length).toBeGreaterThan(10);
});

test.each(blocksOf("markdown"))("the worker in $file can be run as it is", ({ code }) => {
  const name = /^name: (.*)$/m.exec(code)?.[1] ?? "";

  expect(parseWorker(code, `${name}.worker`).name).toBe(name);
});

function isCommandName(name: string): name is CommandName {
  return Object.hasOwn(commandHelp, name);
}

test("every code block of the five documents is compiled or listed with the reason", () => {
  const file = "test/support/document-examples.md";
  const examples = [...readFileSync(file, "utf8").matchAll(/^## (\S+)$/gm)].map(([, name]) => name);
  const rows = tableRows(file, "document").filter(([document = ""]) => /^\d$/.test(document));
  const listed = rows.flatMap(([, , , names = ""]) => [...names.matchAll(/`(.+?)`/g)].map(([, name]) => name));
  const blocks = Object.groupBy(rows, ([document = ""]) => document);
  const counted = Object.entries(blocks).map(([document, rows = []]) => [
    document,
    rows.reduce((sum, [, , count]) => sum + Number(count), 0),
  ]);

  expect([...new Set(listed)].sort()).toEqual(examples.sort());
  expect(rows.filter(([, , , names, reason]) => !names && !reason)).toEqual([]);
  expect(Object.fromEntries(counted)).toEqual({ 1: 29, 2: 8, 3: 24, 4: 22, 5: 19 });
});
