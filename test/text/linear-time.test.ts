import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { JsonValueCounter } from "#text/json-values.ts";
import { readYaml } from "#text/read-yaml.ts";
import { createRedactor, redactDeep } from "#text/redact.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { testLinearTime } from "../support/linear-time.ts";

const privateKey = `-----BEGIN RSA PRIVATE KEY-----\n${"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\n".repeat(20)}-----END RSA PRIVATE KEY-----`;
const secrets = ["a secret of some length", privateKey];
const redact = createRedactor(secrets);
const sanitize = createSanitizer(secrets);

type TextFunction = (...args: unknown[]) => unknown;

/** Fragments of diffs and of code in which the highlighter retries or nests tokens. */
const ofChanges = [
  "--- a\n",
  "+++ b\n",
  "@@ -1 +1 @@\n-a\n+b\n",
  "diff --git a/a b/a\n",
  "a/",
  "(",
  "((",
  "${",
  "`${",
  "`${\n",
  "/*",
];

/** Rendering a line takes microseconds, so the limit of a test is for fewer lines. Quadratic highlighting exceeds it by far. */
const partOf = (text: string) => text.slice(0, process.env.LINEAR_TIME === "all" ? 65_536 : 16_384);

/** How to pass untrusted text to each exported function of src/text. By default it is the only argument. */
const calls: Record<string, (run: TextFunction, text: string) => unknown> = {
  createRedactor: (_, text) => redact(text),
  createSanitizer: (_, text) => [sanitize(text), sanitize(text, "plain")],
  redactDeep: (_, text) => redactDeep({ [text]: [text] }, (part) => part),
  startLeftToRight: (run, text) => run([text]),
  replaceHidden: (run, text) => run(text, () => ""),
  truncateText: (run, text) => run(text, text.length / 2),
  truncateMarkdown: (run, text) => run(text, text.length / 2),
  wrapUntrusted: (run, text) => run(text, text),
  untrustedText: (run, text) => run(text, text),
  wrapCleaned: (run, text) => run({ text, removed: [text] }, text),
  hasMarker: (run, text) => run(text, text),
  html: (run, text) => run(["<p>", "</p>"], text),
  markdownToHtml: (run, text) => run(text, "https://github.com/o/r"),
  closestMatch: (run, text) => run(text, ["fixer", "reviewer"]),
  // Settings and files have short patterns. Paths are of any length.
  compilePathPattern: (run, text) => (run(text.slice(0, 100)) as TextFunction)(text),
  compileGlob: (run, text) => (run(text.slice(0, 1_000)) as TextFunction)(text),
  compileFileGlob: (run, text) => (run(text.slice(0, 1_000)) as TextFunction)(text),
  matchesSomePath: (run, text) => [run([text.slice(0, 100)], [text]), run(["src/**/*.ts", "{a,b}*/"], [text])],
  JsonValueCounter: (_, text) => new JsonValueCounter().add(Buffer.from(text)),
  hasMoreValues: (run, text) => run(Buffer.from(text), 10),
  matchesPattern: (run, text) => [run("*a*b*a*b*c", text), run(text, "a".repeat(1_000))],
  equalSecrets: (run, text) => run(text, text),
  // The languages whose highlighting takes longest for hostile text.
  highlightLines: (run, text) => run(partOf(text).split("\n"), "a.cs"),
  renderFileDiff: (run, text) => run(`@@ -1 +1 @@\n${partOf(text).replaceAll("\n", "\n+")}`, "a.c"),
  renderDiff: (run, text) => [
    run(partOf(text)),
    run(`--- a\n+++ b/a.bash\n@@ -1 +1 @@\n${partOf(text).replaceAll("\n", "\n ")}`),
  ],
  renderChanges: (run, text) => run([{ name: text.slice(0, 4_096), lines: partOf(text).split("\n") }], "id"),
  describeProblems: (run, text) =>
    run([{ code: "unrecognized_keys", keys: [text], path: [], message: "" }], () => ["steps"]),
  invalidFile: (run, text) => {
    const issues = [{ code: "unrecognized_keys", keys: [text], path: [], message: "" }];
    return run("It is not valid", { issues, fieldsAt: () => ["steps"], value: {}, yaml: "a: b" });
  },
  // Only YAML that was parsed before is located.
  positionInYaml: (run, text) => {
    try {
      readYaml(text, "The file");
    } catch {
      return undefined;
    }
    return run(text, ["a", 0]);
  },
  readYaml: (run, text) => {
    try {
      return run(text, "The file");
    } catch (error) {
      if (error instanceof UserError) return undefined;
      throw error;
    }
  },
};

const files = readdirSync(new URL("../../src/text/", import.meta.url), { recursive: true, encoding: "utf8" }).filter(
  (name) => name.endsWith(".ts"),
);
const modules: object[] = await Promise.all(files.map((file) => import(/* @vite-ignore */ `#text/${file}`)));
const functions = modules
  .flatMap((module) => Object.entries(module))
  .filter((entry): entry is [string, TextFunction] => typeof entry[1] === "function");

describe.each(functions)("%s takes linear time", (name, run) => {
  const call = calls[name] ?? ((only: TextFunction, text: string) => only(text));
  testLinearTime((text) => call(run, text), ofChanges);
});

test("a YAML text of 240,000 characters is refused at once", () => {
  expect(() => readYaml("a: b\n".repeat(48_000), "The settings")).toThrow(
    "The settings is too long: it has 240,000 characters, and the limit is 32,768.",
  );
});
