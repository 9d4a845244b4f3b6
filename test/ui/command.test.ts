import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  CommandParseError,
  classifyCommand,
  isBuiltinCommand,
  isCommand,
  isInteractive,
  optionsToArgs,
  type ParsedCommand,
  parseCommand,
} from "#compat/index.ts";
import { anyText } from "../support/hostile-text.ts";

function parsed(input: string): ParsedCommand {
  const command = parseCommand(input);
  if (!command) throw new Error(`${input} is no command`);
  return command;
}

describe("isCommand", () => {
  test.each(["/help", "/tool git_push", "/ space"])("%j is a command", (input) => {
    expect(isCommand(input)).toBe(true);
  });

  test.each(["", "/", "/  ", "hello", " /help", "see /help"])("%j is text", (input) => {
    expect(isCommand(input)).toBe(false);
    expect(parseCommand(input)).toBeNull();
  });
});

describe("parseCommand", () => {
  test.each<[string, string, string[], Record<string, string | boolean>]>([
    ["/help", "help", [], {}],
    ["/tool git_push", "tool", ["git_push"], {}],
    ["/tool git_push --branch main", "tool", ["git_push"], { branch: "main" }],
    ["/tool git_push --branch=main --force", "tool", ["git_push"], { branch: "main", force: true }],
    ["/x --a=b=c", "x", [], { a: "b=c" }],
    ["/x --a=", "x", [], { a: "" }],
    ["/x -abc", "x", [], { a: true, b: true, c: true }],
    ["/x -b main -f", "x", [], { b: "main", f: true }],
    ["/x -n=5", "x", [], { n: "5" }],
    ["/x --count -5", "x", [], { count: "-5" }],
    ["/x --threshold -3.14", "x", [], { threshold: "-3.14" }],
    ["/x -n -.5", "x", [], { n: "-.5" }],
    ["/calc -5", "calc", ["-5"], {}],
    ["/x -abc --count -5 -yz", "x", [], { a: true, b: true, c: true, count: "-5", y: true, z: true }],
    ['/x --message "hello world"', "x", [], { message: "hello world" }],
    ["/x --message='hello world'", "x", [], { message: "hello world" }],
    ["/x --message 'it\\'s fine'", "x", [], { message: "it's fine" }],
    ['/x --message "say \\"hi\\""', "x", [], { message: 'say "hi"' }],
    ['/x --message ""', "x", [], { message: "" }],
    ['/x --message "-not an option"', "x", [], { message: "-not an option" }],
    ["/x hello\\ world", "x", ["hello world"], {}],
    ["/x -- --force -5", "x", ["--force", "-5"], {}],
    ["/x -", "x", ["-"], {}],
    ["/x  a\tb\nc\u00a0d ", "x", ["a", "b", "c", "d"], {}],
    ["/x —branch main", "x", [], { branch: "main" }],
    ["/x --message “hello world”", "x", [], { message: "hello world" }],
  ])("parseCommand parses %j", (input, name, args, options) => {
    expect(parseCommand(input)).toEqual({ name, args, options, raw: input });
  });

  test.each([
    ['/x "unclosed', "Unclosed double quote at position 2"],
    ['/tool foo "bar', "Unclosed double quote at position 9"],
    ["/tool 'unclosed", "Unclosed single quote at position 5"],
    ["/tool arg\\", "Trailing backslash"],
  ])("rejects %j", (input, message) => {
    expect(() => parseCommand(input)).toThrow(CommandParseError);
    expect(() => parseCommand(input)).toThrow(message);
  });

  test("an option may have the name of a built-in object property", () => {
    const { options } = parsed("/x --__proto__ evil --constructor=x");

    expect(Object.entries(options)).toEqual([
      ["__proto__", "evil"],
      ["constructor", "x"],
    ]);
    expect(Object.getPrototypeOf(options)).toBe(Object.prototype);
  });

  test("parseCommand throws nothing but CommandParseError", () => {
    const texts = fc.oneof(anyText(), fc.string({ unit: fc.constantFrom(..."/ \\\"'-=ab1.“”—") }));
    fc.assert(
      fc.property(texts, (text) => {
        try {
          const command = parseCommand(`/${text}`);
          expect(command === null || typeof command.name === "string").toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(CommandParseError);
        }
      }),
    );
  });

  test("an escaped space at the end of the line is kept", () => {
    expect(parsed("/x --a \\\t ").options).toEqual({ a: "\t" });
    expect(parsed("/x a\\ ").args).toEqual(["a "]);
  });

  test("quoted text is parsed to the original text", () => {
    const quotes: ((word: string) => string)[] = [
      (word) => `"${word.replace(/["\\]/g, "\\$&")}"`,
      (word) => `'${word.replace(/['\\]/g, "\\$&")}'`,
      (word) => (word === "" ? '""' : word.replace(/[\s\S]/gu, "\\$&")),
    ];
    const word = fc.tuple(anyText(), fc.constantFrom(...quotes));
    const option = fc.tuple(fc.stringMatching(/^[a-z][a-z_-]{1,8}$/), word);
    fc.assert(
      fc.property(fc.array(word), fc.uniqueArray(option, { selector: ([name]) => name }), (words, options) => {
        const args = words.map(([text, quote]) => quote(text));
        const flags = options.map(([name, [text, quote]]) => `--${name} ${quote(text)}`);

        const command = parsed(["/x", ...args, ...flags].join(" "));

        expect(command.args).toEqual(words.map(([text]) => text));
        expect(command.options).toEqual(Object.fromEntries(options.map(([name, [text]]) => [name, text])));
      }),
    );
  });

  test("a long run of digits and hyphens is parsed quickly", () => {
    const started = performance.now();
    parseCommand(`/x -${"1".repeat(60_000)}x ${"-".repeat(60_000)} --a ${"—".repeat(1_000)}`);
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});

describe("classifyCommand", () => {
  const tools = ["git_push", "Deploy", "help"];

  test.each([
    ["/help", { type: "builtin", command: "help" }],
    ["/HELP", { type: "builtin", command: "help" }],
    ["/tools", { type: "builtin", command: "tools" }],
    ["/tool git_push --branch main", { type: "tool", toolName: "git_push" }],
    ["/T GIT_PUSH", { type: "tool", toolName: "git_push" }],
    ["/t not_there", { type: "tool", toolName: "not_there" }],
    ["/git_push --branch main", { type: "tool", toolName: "git_push" }],
    ["/dEpLoY", { type: "tool", toolName: "Deploy" }],
    ["/tool", { type: "unknown" }],
    ["/t", { type: "unknown" }],
    ["/constructor", { type: "unknown" }],
  ])("classifies %j as %j", (input, expected) => {
    const command = parsed(input);
    expect(classifyCommand(command, tools)).toEqual({ ...expected, parsed: command });
  });

  test("tools and tool names are both accepted", () => {
    const command = parsed("/git_push");
    expect(classifyCommand(command, [{ name: "git_push" }])).toEqual({
      type: "tool",
      toolName: "git_push",
      parsed: command,
    });
  });

  test.each(["help", "model", "clear", "status", "config", "exit", "tools", "tool", "t", "ts"])(
    "%s is a built-in command",
    (name) => {
      expect(isBuiltinCommand(name)).toBe(true);
    },
  );

  test("a tool is not a built-in command", () => {
    expect(isBuiltinCommand("git_push")).toBe(false);
  });
});

test.each([
  ["/tool git_push -i", true],
  ["/git_push --interactive", true],
  ["/tool git_push --branch main", false],
  ["/tool git_push -i value", false],
])("%j is interactive: %j", (input, interactive) => {
  expect(isInteractive(parsed(input))).toBe(interactive);
});

test("options are converted to arguments, with booleans and short names", () => {
  const options = { b: "main", f: true, enabled: "true", disabled: "false" };
  expect(optionsToArgs(options, { b: "branch", f: "force" })).toEqual({
    branch: "main",
    force: true,
    enabled: true,
    disabled: false,
  });
});
