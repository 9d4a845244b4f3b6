import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { applyReplacements, type EditMatch, matchEdit } from "#toolsets/filesystem/match-edit.ts";
import { findLines } from "#toolsets/filesystem/match-text.ts";
import { propertyRuns } from "../../support/property-runs.ts";

function edited(content: string, oldText: string, newText: string, all = false): string {
  const match = matchEdit(content, { oldText, newText, all });
  return match.kind === "found" ? applyReplacements(content, match.replacements) : describeMatch(match);
}
const describeMatch = (match: EditMatch) => (match.kind === "found" ? match.by : `${match.kind} ${match.lines}`);

describe("where an edit lands", () => {
  test.each<[string, string, string, string, string]>([
    ["the exact place", "a\nb\nc\n", "b", "B", "a\nB\nc\n"],
    ["a CRLF file, keeping its endings", "a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", "x\r\ny\r\nc\r\n"],
    ["a new line in a CRLF file", "a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"],
    ["a line break at the start in a CRLF file", "a\r\nb\r\n", "\nb", "x\ny", "ax\r\ny\r\n"],
    ["a file with a byte order mark", "\uFEFFa\nb\n", "\uFEFFa\nb", "x\nb", "\uFEFFx\nb\n"],
    ["lines with trailing space", "a  \nb\t\nc\n", "a\nb\nc", "x", "x\n"],
    ["old text with trailing space", "a\nb\nc\n", "a \nb  \n", "x\n", "x\nc\n"],
    ["typographic quotes in the file", "say(“hi” – it’s)\n", 'say("hi" - it\'s)', "say()", "say()\n"],
    ["typographic quotes in the old text", 'say("hi")\n', "say(“hi”)", "say()", "say()\n"],
    [
      "deeper indentation",
      "if {\n    a();\n    b();\n}\n",
      "a();\nb();",
      "a();\nc();",
      "if {\n    a();\n    c();\n}\n",
    ],
    ["shallower indentation", "a();\n  b();\n", "    a();\n      b();\n", "    a();\n      c();\n", "a();\n  c();\n"],
    [
      "tabs around",
      "\tif (x) {\n\t\ty();\n\t}\n",
      "if (x) {\n\ty();\n}",
      "if (z) {\n\n\ty();\n}",
      "\tif (z) {\n\n\t\ty();\n\t}\n",
    ],
    [
      "tabs where the old text has spaces",
      "if x {\n\ty()\n\t\tz()\n}\n",
      "    y()\n        z()",
      "    y()\n        w()",
      "if x {\n\ty()\n\t\tw()\n}\n",
    ],
    [
      "spaces where the old text has tabs",
      "if x {\n    y()\n        z()\n}\n",
      "\ty()\n\t\tz()",
      "\ty()\n\t\tw()\n\t\t\tv()",
      "if x {\n    y()\n        w()\n            v()\n}\n",
    ],
    [
      "one line with tabs where the old text has spaces",
      "if x {\n\ty()\n}\n",
      "    y()",
      "    if y {\n        z()\n    }",
      "if x {\n\tif y {\n\t\tz()\n\t}\n}\n",
    ],
    [
      "an indentation of another width",
      "a:\n    b:\n        c\n",
      "  b:\n    c",
      "  b:\n    d:\n      e",
      "a:\n    b:\n        d:\n            e\n",
    ],
    [
      "a block with the same first and last line",
      "function add(a, b) {\n  // sums two numbers up\n  return a - b;\n}\nnext();\n",
      "function add(a, b) {\n  // sums two numbers\n  return a - b;\n}",
      "function add(a, b) {\n  return a + b;\n}",
      "function add(a, b) {\n  return a + b;\n}\nnext();\n",
    ],
  ])("an edit finds %s", (_, content, oldText, newText, expected) => {
    expect(edited(content, oldText, newText)).toBe(expected);
  });

  test.each<[string, string, string, string]>([
    ["two exact places", "x\na\nx\n", "x", "ambiguous 1,3"],
    ["places that overlap", "aaa", "aa", "ambiguous 1,1"],
    ["two places that differ in trailing space", "f() \ng()\nf()\t\ng()\n", "f()\ng()", "ambiguous 1,3"],
    ["two places that match with other indentation", "if\n  a\n  b\nelse\n    a\n    b\n", "\ta\n\tb", "ambiguous 2,5"],
    ["a place whose lines are nested differently", "if\n  a\n    b\n", "a\nb", "none 2"],
    ["places that differ in their line endings alone", "a\nb\nc\r\na\r\nb\r\n", "a\nb", "ambiguous 1,4"],
    ["two places with one indentation more", "if\n  a\n  b\nelse\n    a\n    b\n", "a\nb", "ambiguous 2,5"],
    ["nothing alike", "a\nb\n", "zebra", "none "],
    ["blocks that have too little in common", "{\na lot of words here\n}\n", "{\nnothing alike at all\n}", "none 1"],
    [
      "two blocks with the same first and last line",
      "{\nsome words\n}\n{\nsome words!\n}\n",
      "{\nsome word\n}",
      "none 1,4",
    ],
    ["a word whose trailing space is inside a line", "returned\n", "return ", "none "],
    ["part of a folded ellipsis", "a…b", "a..", "none "],
    ["blank old text", "a\n\tb\n", "  \n", "none "],
  ])("an edit is refused for %s", (_, content, oldText, expected) => {
    expect(edited(content, oldText, "new")).toBe(expected);
  });

  test("replace_all replaces every place", () => {
    expect(edited("x a x\nx\n", "x", "yy", true)).toBe("yy a yy\nyy\n");
    expect(edited("if\n  a\nelse\n    a\n", "a", "b", true)).toBe("if\n  b\nelse\n    b\n");
  });

  test("an exact match takes precedence over a similar one", () => {
    expect(edited('“a”\n"a"\n', '"a"', "b")).toBe("“a”\nb\n");
  });
});

const line = fc.constantFrom("", "a", "b", "  a", "\tb ", "}", "“q”", "x…", "a b", "é", "😀");
const ending = fc.constantFrom("\n", "\r\n");
const text = fc
  .tuple(fc.constantFrom("", "\uFEFF"), fc.array(fc.tuple(line, ending), { maxLength: 12 }), line)
  .map(([mark, lines, last]) => mark + lines.map((pair) => pair.join("")).join("") + last);

describe("indentation of new lines", () => {
  const file = "function f() {\n    if (x) {\n        return 1\n    }\n}\n";
  const withBody = (...lines: string[]) => file.replace("        return 1", lines.join("\n"));

  test.each<[string, string, string, string[]]>([
    [
      "an old line without indentation",
      "return 1",
      "const y = 1\nreturn y",
      ["        const y = 1", "        return y"],
    ],
    [
      "an old line with less indentation",
      "    return 1",
      "    const y = 1\n    return y",
      ["        const y = 1", "        return y"],
    ],
    [
      "nested new lines",
      "return 1",
      "for (;;) {\n    y()\n}\nreturn 1",
      ["        for (;;) {", "            y()", "        }", "        return 1"],
    ],
  ])("the indentation of new lines is that of their place for %s", (_, oldText, newText, expected) => {
    expect(edited(file, oldText, newText)).toBe(withBody(...expected));
  });

  test.each<[string, string, string, string[]]>([
    [
      "lines that already have it",
      "return 1",
      "const y = 1\n        return y",
      ["        const y = 1", "        return y"],
    ],
    [
      "lines of an outer block",
      "return 1",
      "return 1\n    } else {\n        return 2",
      ["        return 1", "    } else {", "        return 2"],
    ],
    ["a closing bracket", "return 1", "return 1\n}", ["        return 1", "}"]],
    [
      "a function after a blank line",
      "return 1",
      "return 1\n\nfunction g() {}",
      ["        return 1", "", "function g() {}"],
    ],
    ["a part of a line", "1", "[\n1,\n]", ["        return [", "1,", "]"]],
    ["an old text of several lines", "if (x) {\n        return 1", "if (y) {\n        return 2", []],
  ])("the indentation of new lines stays as given for %s", (_, oldText, newText, expected) => {
    const wanted = expected.length > 0 ? withBody(...expected) : file.replace(oldText, newText);
    expect(edited(file, oldText, newText)).toBe(wanted);
  });
});

describe("for any text", () => {
  test("places are within the content and in order", () => {
    fc.assert(
      fc.property(text, text, text, fc.boolean(), (content, oldText, newText, all) => {
        const match = matchEdit(content, { oldText, newText, all });
        if (match.kind !== "found") return;

        let from = 0;
        for (const { start, end } of match.replacements) {
          expect(start).toBeGreaterThanOrEqual(from);
          expect(end).toBeGreaterThanOrEqual(start);
          from = end;
        }
        expect(from).toBeLessThanOrEqual(content.length);
        if (!all) expect(match.replacements).toHaveLength(1);
      }),
      { numRuns: propertyRuns(1_000) },
    );
  });

  test("text that occurs twice is never edited without replace_all", () => {
    fc.assert(
      fc.property(text, text, text, text, (before, part, between, after) => {
        fc.pre(part !== "");
        const match = matchEdit(before + part + between + part + after, { oldText: part, newText: "new" });

        expect(match.kind).toBe("ambiguous");
      }),
    );
  });

  test("an exact edit and its inverse restore the text", () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        const content = `${before}OLD${after}`;
        const there = edited(content, "OLD", "NEW");

        expect(there).toBe(`${before}NEW${after}`);
        expect(edited(there, "NEW", "OLD")).toBe(content);
      }),
    );
  });
});

test("large and hostile texts are matched quickly", () => {
  const lines = "  same line\n".repeat(50_000);

  expect(matchEdit(lines, { oldText: `${"same line\n".repeat(20_000)}other\n`, newText: "" }).kind).toBe("none");
  expect(matchEdit("a".repeat(1_000_000), { oldText: "a".repeat(500_000), newText: "" }).kind).toBe("ambiguous");
});

test("an edit of 20 MB takes less than two seconds of CPU time, found or not", () => {
  const content = "const value = compute(argument);\n".repeat(650_000);
  const started = process.cpuUsage();

  expect(matchEdit(content, { oldText: "const other = 1;\nconst more = 2;", newText: "" }).kind).toBe("none");
  expect(
    matchEdit(content.replace("argument", "“argument”"), { oldText: 'compute("argument")', newText: "x" }).kind,
  ).toBe("found");
  // Trailing space is looked for after each of these spaces.
  expect(matchEdit(`${" ".repeat(200_000)}a\n`, { oldText: "b \n", newText: "" }).kind).toBe("none");
  const { user, system } = process.cpuUsage(started);
  expect((user + system) / 1_000).toBeLessThan(2_000);
});

test("every occurrence of a block of lines is found", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("a", "b")),
      fc.array(fc.constantFrom("a", "b"), { minLength: 1, maxLength: 4 }),
      (lines, block) => {
        const plain = lines.flatMap((_, at) => (block.every((text, index) => lines[at + index] === text) ? [at] : []));

        expect(findLines(lines, block)).toEqual(plain);
      },
    ),
  );
});
