import { expect, test, vi } from "vitest";
import { UserError } from "#domain/errors.ts";
import { readYaml } from "#text/read-yaml.ts";

test("YAML is parsed to plain values", () => {
  expect(readYaml("name: fixer\nlimits: { steps: 3 }\nlist:\n  - a\n  - b: c", "The file")).toEqual({
    name: "fixer",
    limits: { steps: 3 },
    list: ["a", { b: "c" }],
  });
  expect(readYaml("", "The file")).toBeNull();
});

test.each([
  ["an unclosed list", "a: 1\nb: [", "The file is not valid YAML: Flow sequence in block collection must be"],
  ["an unclosed list, with its position", "a: 1\nb: [", "at line 2, column 5."],
  ["a key that occurs twice", "a: 1\nb: 2\na: 3", 'The key "a" occurs twice at line 3, column 1.'],
  ["a nested key that occurs twice", "a: { b: 1, b: 2 }", 'The key "b" occurs twice at line 1, column 12.'],
  ["two documents", "a: 1\n---\nb: 2", "Only one document is allowed, but a second one begins at line 2, column 1."],
  ["an alias without an anchor", "a: *b", "Unresolved alias"],
  ["aliases that multiply", `a: &a [x, x]\nb: [${"*a, ".repeat(30)}]`, "Excessive alias count"],
  ["a list in a list in a list …", "[".repeat(30_000), "nested too deeply"],
])("%s is reported", (_, text, message) => {
  expect(() => readYaml(text, "The file")).toThrow(UserError);
  expect(() => readYaml(text, "The file")).toThrow(message);
});

test("a warning does not print parts of the text", () => {
  const warn = vi.spyOn(process, "emitWarning").mockReturnValue();

  readYaml("? [secret]\n: a\nb: !unknown hunter2", "The file");

  expect(warn).not.toHaveBeenCalled();
  warn.mockRestore();
});
