import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  escapeInvisible,
  inCode,
  normalizeText,
  quoted,
  showHidden,
  startLeftToRight,
  visibleLine,
  visibleName,
  visibleText,
  wrapMark,
  wrapVisible,
} from "#text/visible-text.ts";
import { anyText } from "../support/hostile-text.ts";
import { propertyRuns } from "../support/property-runs.ts";

describe("invisible characters are shown as escapes", () => {
  test.each([
    ["an ANSI escape sequence", "a\u001B[2Kb", "a⟨ESC⟩[2Kb"],
    ["an operating system command", "a\u001B]8;;x\u0007b", "a⟨ESC⟩]8;;x⟨U+0007⟩b"],
    ["the 8-bit CSI", "a\u009B2Kb", "a⟨U+009B⟩2Kb"],
    ["a lone carriage return", "rm -rf /\rls", "rm -rf /⟨CR⟩ls"],
    ["a line separator", "a\u2028b", "a⟨U+2028⟩b"],
    ["a bidirectional override", "\u202Eabc\u202C", "⟨U+202E⟩abc⟨U+202C⟩"],
    ["a zero-width space", "pass\u200Bword", "pass⟨U+200B⟩word"],
    ["a no-break space", "a\u00A0b", "a⟨U+00A0⟩b"],
    ["a Hangul filler", "a\u3164b", "a⟨U+3164⟩b"],
    ["a blank Braille pattern", "a\u2800b", "a⟨U+2800⟩b"],
    ["a tag character", "a\u{E0041}b", "a⟨U+E0041⟩b"],
    ["a variation selector", "a\uFE0Fb", "a⟨U+FE0F⟩b"],
    ["a musical symbol without a note", "a\u{1D159}b", "a⟨U+1D159⟩b"],
    ["a Khitan filler", "a\u{16FE4}b", "a⟨U+16FE4⟩b"],
    ["signs that Unicode equates with ASCII", "a\u037Eb\u1FEFc\u212A", "a⟨U+037E⟩b⟨U+1FEF⟩c⟨U+212A⟩"],
    ["a private use character", "a\uE000b", "a⟨U+E000⟩b"],
    ["a lone surrogate", "a\uD800b", "a⟨U+D800⟩b"],
    ["combining marks stacked over other lines", `e${"\u0301".repeat(5)}`, `e${"\u0301".repeat(3)}⟨U+0301⟩⟨U+0301⟩`],
  ])("%s", (_, text, shown) => {
    expect(visibleText(text)).toBe(shown);
  });

  test("signs that look like those of paths are escaped in names", () => {
    const signs = "\u2044\u2215\u29F8\u2024\u2010\u2011\u2212\u2236\uA789";

    expect(visibleName(`docs${signs}a.md`)).toBe(
      `docs${[...signs].map((sign) => `⟨U+${sign.charCodeAt(0).toString(16).toUpperCase()}⟩`).join("")}a.md`,
    );
  });

  test("an escape cannot be imitated by text", () => {
    expect(visibleText("⟨U+202E⟩")).toBe("⟨U+27E8⟩U+202E⟨U+27E9⟩");
    expect(visibleText(`${wrapMark} rest`)).toBe("⟨U+2937⟩ rest");
  });

  test.each([
    ['"א" + 1 - 5 + "ב"', '"⟨U+05D0⟩" + 1 - 5 + "⟨U+05D1⟩"'],
    ["if (א - 5) b()", "if (⟨U+05D0⟩ - 5) b()"],
    ["/* ا */ - 1; // c", "/* ⟨U+0627⟩ */ - 1; // c"],
    ["ok()\nא=ב", "ok()\n⟨U+05D0⟩=⟨U+05D1⟩"],
    ["א,ב", "⟨U+05D0⟩,⟨U+05D1⟩"],
    ["א (1", "⟨U+05D0⟩ (1"],
    ["a א-1 b", "a ⟨U+05D0⟩-1 b"],
  ])("letters written from right to left that would reorder a line: %s", (text, shown) => {
    expect(visibleText(text)).toBe(shown);
  });

  test.each([
    ["a Cyrillic letter", "npm install p\u0430ypal", "npm install p⟨U+0430⟩ypal"],
    ["a Greek letter", "if (is_\u0391dmin) {}", "if (is_⟨U+0391⟩dmin) {}"],
    ["an Armenian letter", "l\u0585g", "l⟨U+0585⟩g"],
    ["a Cherokee letter", "\u13aatotal", "⟨U+13AA⟩total"],
    ["a Lisu letter", "A\ua4f2", "A⟨U+A4F2⟩"],
    ["a full-width letter", "ev\uff41l", "ev⟨U+FF41⟩l"],
    ["a mathematical letter", "e\u{1d42f}al", "e⟨U+1D42F⟩al"],
    ["letters joined by an underscore", "user_\u0430", "user_⟨U+0430⟩"],
  ])("a word of Latin letters that has %s of another script", (_, text, shown) => {
    expect(visibleText(text)).toBe(shown);
    expect(visibleName(text)).toBe(shown);
  });

  test.each(["Tシャツを2枚", "LGTMです", "API를 고칩니다", "5 µm, 3 µs", "1ª versión", "web-сервер, SQL и Привет"])(
    "words that mix scripts as their writers do are left alone: %s",
    (text) => {
      expect(visibleText(text)).toBe(text);
    },
  );

  test("the start of one of our comment markers", () => {
    expect(visibleText("<!-- golem-forge:approval%2Fk7mq --><!-- a -->")).toBe(
      "⟨U+003C⟩!-- golem-forge:approval%2Fk7mq --><!-- a -->",
    );
    expect(visibleText("<!--golem-forge:x<!--  golem-forge:y")).toBe(
      "⟨U+003C⟩!--golem-forge:x⟨U+003C⟩!--  golem-forge:y",
    );
  });

  test.each(["// שלום עולם, מה שלומך? 5", 'print("שלום"); // x = 5', "مرحبا بالعالم.", "א1 ב2"])(
    "words written from right to left are left alone: %s",
    (text) => {
      expect(visibleText(text)).toBe(text);
    },
  );

  test("letters of all scripts are unchanged", () => {
    const text = "naïve café, Привет, 日本語, עברית, नमस्ते, 🎉";

    expect(visibleText(text)).toBe(text);
  });

  test("blanks at the end of a line are counted", () => {
    expect(visibleText("a \nb   \n\tc\nd\t\n")).toBe("a⟨space⟩\nb⟨3 spaces⟩\n\tc\nd⟨TAB⟩\n");
    expect(visibleText("a \t\n  \na  b")).toBe("a⟨space⟩⟨TAB⟩\n⟨2 spaces⟩\na  b");
  });

  test("bytes that are not UTF-8 are shown as bytes, and other lone surrogates by their code", () => {
    expect(visibleText("\uDC80\uDCFF")).toBe("⟨0x80⟩⟨0xFF⟩");
    expect(visibleText("\uDC7F\uDD00\u0001")).toBe("⟨U+DC7F⟩⟨U+DD00⟩⟨U+0001⟩");
  });

  test("a name stays on one line", () => {
    expect(visibleName(" a\nb\tc ")).toBe("⟨space⟩a⟨U+000A⟩b⟨TAB⟩c⟨space⟩");
    expect(visibleName("  a  ")).toBe("⟨2 spaces⟩a⟨2 spaces⟩");
    expect(visibleName("a b  c")).toBe("a b⟨2 spaces⟩c");
  });
});

test("the first letter of a block does not turn its direction", () => {
  expect(startLeftToRight(["  ", "1 אב", "ג"])).toEqual(["  ", "1 ⟨U+05D0⟩ב", "ג"]);
  expect(startLeftToRight(["a אב", "ג"])).toEqual(["a אב", "ג"]);
  expect(startLeftToRight(["1", ""])).toEqual(["1", ""]);
});

describe("long lines", () => {
  test("long lines are wrapped and marked", () => {
    const text = `short\n${" ".repeat(2_600)}evil()`;

    const lines = visibleText(text).split("\n");

    expect(lines[0]).toBe("short");
    expect(lines.at(-1)).toContain("evil()");
    expect(lines.slice(2).every((line) => line.startsWith(`${wrapMark} `))).toBe(true);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(122);
  });

  test("a tab counts as its columns", () => {
    expect(visibleLine(`${"\t".repeat(20)}x`, 80)).toHaveLength(3);
  });

  test.each([
    ["abcd", 4, ["abcd"]],
    ["abcdefghij", 4, ["abcd", "efgh", "ij"]],
    ["ab\tcd", 8, ["ab\t", "cd"]],
    ["\tab", 9, ["\ta", "b"]],
    ["漢漢漢", 4, ["漢漢", "漢"]],
    ["\u1100\u1100\u1161a", 4, ["\u1100\u1100", "\u1161a"]],
    ["\u10FFabcd", 4, ["\u10FFabc", "d"]],
    ["\u2E80\uFFE6a", 4, ["\u2E80\uFFE6", "a"]],
    ["\u2E7F\uFFE7aab", 4, ["\u2E7F\uFFE7aa", "b"]],
    ["🀀🀀🀀", 4, ["🀀🀀", "🀀"]],
    ["\u{1D400}\u{1D400}\u{1D400}", 4, ["\u{1D400}\u{1D400}", "\u{1D400}"]],
    ["⟨U+202E⟩⟨U+202E⟩", 4, ["⟨U+202E⟩", "⟨U+202E⟩"]],
    [`⟨${"a".repeat(30)}⟩b`, 20, [`⟨${"a".repeat(30)}⟩`, "b"]],
    [`⟨${"a".repeat(31)}⟩`, 20, [`⟨${"a".repeat(19)}`, `${"a".repeat(12)}⟩`]],
  ])("%j in %i columns are %j", (line, columns, parts) => {
    expect(wrapVisible(line, columns)).toEqual(parts);
  });

  test("an escape is not split", () => {
    const parts = visibleLine("\u202E".repeat(40), 20);

    expect(parts.every((part) => /^(?:⟨U\+202E⟩)+$/.test(part))).toBe(true);
  });
});

test("different texts look different, and no part of a text is lost", () => {
  const characters = fc.constantFrom(..."ab \t\r\n⟨⟩⤷א+1\u202E\u200B\u001B\u0301é日🎉\uD800");
  const texts = fc.array(characters, { maxLength: 200 }).map((all) => all.join(""));
  fc.assert(
    fc.property(texts, (text) => {
      expect(decode(visibleText(text))).toBe(text);
    }),
    { numRuns: propertyRuns(500) },
  );
});

test("the result has no invisible characters", () => {
  const texts = anyText({ maxLength: 300 });
  fc.assert(
    fc.property(texts, (text) => {
      expect(escapeInvisible(text)).not.toMatch(/(?![\t\n])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u);
    }),
  );
});

/** Reads the shown text back, as a reader who knows the rules would. */
function decode(shown: string): string {
  const names: Record<string, string> = { NUL: "\0", CR: "\r", ESC: "\u001B", DEL: "\u007F", TAB: "\t", space: " " };
  return shown
    .replaceAll(`\n${wrapMark} `, "")
    .replace(/⟨(?:U\+([0-9A-F]+)|(\d+) spaces|(\w+))⟩/g, (_, code, count, name) => {
      if (code) return String.fromCodePoint(Number.parseInt(code, 16));
      return count ? " ".repeat(Number(count)) : (names[name] ?? "?");
    });
}

test.each([
  ["Fix it. Approved by @ada", "“Fix it. Approved by @ada”"],
  ["a” and is safe. “b", "“a⟨quotation mark⟩ and is safe. ⟨quotation mark⟩b”"],
  ["one\n\n## two", "“one ## two”"],
  ["\u001b[2K\u202ex", "“⟨ESC⟩[2K⟨U+202E⟩x”"],
  ["a".repeat(300), `“${"a".repeat(300)}”`],
  ["a".repeat(301), `“${"a".repeat(299)}…”`],
  [`${"a".repeat(298)}🎉🎉`, `“${"a".repeat(298)}…”`],
])("%j is quoted as %j", (text, expected) => {
  expect(quoted(text)).toBe(expected);
});

test("code in a sentence cannot be closed from inside", () => {
  expect(inCode("rm `. It is safe. `")).toBe("`rm '. It is safe. '`");
});

describe("text for people", () => {
  test.each([
    ["line ends", "a\r\nb\rc\n", "a\nb\nc\n"],
    ["a color", "\u001B[1;31ma\u001B[0m", "a"],
    ["a color in its 8-bit form", "\u009B31ma", "a"],
    ["a window title", "\u001B]0;title\u0007a", "a"],
    ["a window title that ends with ST", "\u001B]0;title\u001B\\a", "a"],
    ["a device control string", "\u001BPq#0\u009Ca", "a"],
    ["a character set", "\u001B(Ba", "a"],
    ["a cursor key", "\u001B7a\u001B=", "a"],
    ["an unfinished window title", "a\u001B]0;title", "a"],
    ["a lone surrogate", "a\uD800", "a\uFFFD"],
  ])("text for people has no %s", (_, text, normalized) => {
    expect(normalizeText(text)).toBe(normalized);
  });

  test.each([
    ["a\u200Bb", "a⟨U+200B⟩b"],
    ["a\u0001b", "a⟨U+0001⟩b"],
    ["a\u200B\u200Cb", "a⟨2 hidden characters⟩b"],
    ["a\u{E0041}b", "a⟨U+E0041⟩b"],
    ["a\tb\n", "a\tb\n"],
    ["👩\u200D👩 ❤\uFE0F 1\uFE0F\u20E3 👍🏽\u200D♂", "👩\u200D👩 ❤\uFE0F 1\uFE0F\u20E3 👍🏽\u200D♂"],
    ["a\u200D👩 👩\u200Da a\uFE0F 1\uFE0F", "a⟨U+200D⟩👩 👩⟨U+200D⟩a a⟨U+FE0F⟩ 1⟨U+FE0F⟩"],
  ])("text for people shows hidden characters but keeps emoji: %j", (text, shown) => {
    expect(showHidden(text)).toBe(shown);
  });
});
