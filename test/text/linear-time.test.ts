import { readdirSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { readYaml } from "#text/read-yaml.ts";
import { createRedactor, redactDeep } from "#text/redact.ts";
import { createSanitizer } from "#text/sanitize.ts";

const privateKey = `-----BEGIN RSA PRIVATE KEY-----\n${"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\n".repeat(20)}-----END RSA PRIVATE KEY-----`;
const secrets = ["a secret of some length", privateKey];
const redact = createRedactor(secrets);
const sanitize = createSanitizer(secrets);

type TextFunction = (...args: unknown[]) => unknown;

/** How to pass foreign text to each exported function of src/text. By default it is the only argument. */
const calls: Record<string, (run: TextFunction, text: string) => unknown> = {
  createRedactor: (_, text) => redact(text),
  createSanitizer: (_, text) => [sanitize(text), sanitize(text, "plain")],
  redactDeep: (_, text) => redactDeep({ [text]: [text] }, (part) => part),
  replaceHidden: (run, text) => run(text, () => ""),
  truncateText: (run, text) => run(text, text.length / 2),
  truncateMarkdown: (run, text) => run(text, text.length / 2),
  wrapUntrusted: (run, text) => run(text, text),
  hasMarker: (run, text) => run(text, text),
  renderMarkdown: (run, text) => run(text, "https://github.com/o/r"),
  closestMatch: (run, text) => run(text, ["fixer", "reviewer"]),
  matchesPattern: (run, text) => [run("*a*b*a*b*c", text), run(text, "a".repeat(1_000))],
  equalSecrets: (run, text) => run(text, text),
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

const files = readdirSync(new URL("../../src/text/", import.meta.url));
const modules: object[] = await Promise.all(files.map((file) => import(/* @vite-ignore */ `#text/${file}`)));
const functions = modules
  .flatMap((module) => Object.entries(module))
  .filter((entry): entry is [string, TextFunction] => typeof entry[1] === "function");

/** Fragments at which parsers try again, look ahead or go back. */
const fragments = [
  ...["eyJ", "eyJaaaaaaaa", "eyJaaaaaaaa.", "ghp_", "ghs_1_eyJ", "gho_aaaaaaaaaaaaaaaa.", "sk-", "sk-ant-", "xoxb-"],
  ...["-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\n", "-----BEGIN ", "\\n"],
  ...["https://a:", "http://", "https://a.", ":", "@", "@a ", "#1", "GH-1", "closes https://a/issues/1 ", "fixes "],
  ...["[", "![", "![a](", "](", "[a]: b\n", "[a]", "`", "`a", "`a`\n", "```\n", "```a`\n", "~~~\n"],
  ...["<", "<a ", '<a b="', "</", "<!--", "<?", "<![CDATA[", "<details>", "</details>", "<b>", "&#1", "&amp;"],
  ...["*", "**a", "*a_", "_a", "\\", "\n", "\n\n", "\r", "\r\n", " ", "\t", " \n", "> ", "- ", "- a\n", "# a\n"],
  ...["| a |\n|-|\n", "a", "a ", "a\n", "\u200B", "a\u200B", "\u001B[", "\u001B]", "\u009B", "👩\u200D", "\uD800"],
  ...["⟨", "⟩", "\u0301", "漢", "{", "[{", "{a: ", "a: b\n", "&a ", "*a ", "? ", "'", '"', "!!a ", "%a\n", "---\n"],
  ...["untrusted", "</untrusted", "{1,9}", "(a|b)", "[a-z]", "a*", '{"a":', "www.a.", "a@b."],
];

const length = 32 * 1024;

describe.each(functions)("%s takes linear time", (name, run) => {
  const call = calls[name] ?? ((only: TextFunction, text: string) => only(text));

  /** Milliseconds of CPU, which do not depend on what else the machine does. */
  function cpuOf(text: string): number {
    const before = process.threadCpuUsage();
    call(run, text);
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1_000;
  }

  /** A text of four times the length may take 4 times as long, with some tolerance, but not 16 times. */
  function expectLinear(unit: string, prefix = "", suffix = ""): void {
    const textOf = (size: number) => prefix + unit.repeat(Math.ceil(size / unit.length)) + suffix;
    let first = cpuOf(textOf(length));
    // Too fast to matter: even quadratic growth would mean a quarter of a second for 256 KB.
    if (first < 4) return;

    let last = cpuOf(textOf(4 * length));
    for (let attempt = 0; attempt < 3 && last > 9 * first; attempt++) {
      first = Math.max(4, Math.min(first, cpuOf(textOf(length))));
      last = Math.min(last, cpuOf(textOf(4 * length)));
    }
    expect(last / first, `growth for ${JSON.stringify(unit)}`).toBeLessThan(9);
    expect(last, `milliseconds for ${JSON.stringify(unit)}`).toBeLessThan(1_000);
  }

  test("for repeated fragments", () => {
    for (const fragment of fragments) expectLinear(fragment);
  });

  test("for random combinations of them", () => {
    const unit = fc.array(fc.constantFrom(...fragments), { minLength: 2, maxLength: 4 }).map((parts) => parts.join(""));
    fc.assert(fc.property(unit, fc.constantFrom("", "x", "<a ", "```\n"), fc.constantFrom("", "!"), expectLinear), {
      numRuns: 20,
    });
  });
});

test("a YAML text of 240,000 characters is refused at once", () => {
  expect(() => readYaml("a: b\n".repeat(48_000), "The settings")).toThrow(
    "The settings is too long: it has 240,000 characters, and the limit is 32,768.",
  );
});
