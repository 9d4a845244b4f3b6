import { stripVTControlCharacters, styleText } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { markdownToAnsi } from "#terminal/markdown-to-ansi.ts";
import type { Style } from "#terminal/style.ts";

const plain: Style = (_, text) => text;
const colored: Style = (format, text) => styleText(format, text, { validateStream: false });
const render = (text: string, columns = 40) => markdownToAnsi(text, { style: plain, columns });

test("Markdown is rendered as text with the layout of a page", () => {
  expect(
    render(`## Result

I changed **one** file, which was *wrong*, and \`b.ts\` in a sentence that is too long for a line.

1. First
2. Second
   - nested

> quoted

\`\`\`ts
const a = 1;
\`\`\`

| file | lines |
|---|---|
| a.txt | 1 |

See [the docs](https://example.com).`),
  ).toEqual([
    "Result",
    "",
    "I changed one file, which was wrong, and",
    "b.ts in a sentence that is too long for",
    "a line.",
    "",
    "1. First",
    "2. Second",
    "  • nested",
    "",
    "│ quoted",
    "",
    "const a = 1;",
    "",
    "file   lines",
    "─────  ─────",
    "a.txt  1",
    "",
    "See the docs (https://example.com).",
  ]);
});

test("text cannot control the terminal, and prose fits its width", () => {
  const part = fc.constantFrom(
    "# ",
    "**a",
    "`",
    "- ",
    "\n",
    "\n\n",
    "> ",
    "word ",
    "\u001b[2J",
    "\u202e",
    "&#13;",
    "&#10;",
    "&#x202e;",
    "&#x9b;2J",
    "|a|\n|-|\n",
    "<b>",
    "[a](b)",
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 40 }), (parts) => {
      for (const line of markdownToAnsi(parts.join(""), { style: colored, columns: 60 })) {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be left
        expect(stripVTControlCharacters(line)).not.toMatch(/[\u0000-\u0008\u000a-\u001f\u0080-\u009f\u202e]/);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: colors only
        expect(line.replaceAll(/\u001b\[\d+m/g, "")).not.toContain("\u001b");
      }
    }),
  );
  // What Markdown writes as a number does not overwrite the line, or begin another one.
  expect(render("safe&#13;bad&#10;&#x202e;| x |")).toEqual(["safe⟨U+000D⟩bad ⟨U+202E⟩| x |"]);
  expect(render("word ".repeat(100), 30).every((line) => line.length <= 30)).toBe(true);
});
