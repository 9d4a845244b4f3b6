import fc from "fast-check";
import { expect, test } from "vitest";

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

const length = 16 * 1024;

/** Milliseconds of CPU, which do not depend on what else the machine does. */
function cpuOf(call: (text: string) => unknown, text: string): number {
  const before = process.threadCpuUsage();
  call(text);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** Checks that a text of four times the length takes about 4 times as long, with some tolerance, and not 16 times. */
function expectLinear(call: (text: string) => unknown, unit: string, prefix = "", suffix = ""): void {
  const textOf = (size: number) => prefix + unit.repeat(Math.ceil(size / unit.length)) + suffix;
  let first = cpuOf(call, textOf(length));
  // Too fast to matter: even quadratic growth would mean half a second for 256 KB.
  if (first < 2) return;
  // The clock and the garbage collector are noise of a few milliseconds.
  first = Math.max(4, first);

  let last = cpuOf(call, textOf(4 * length));
  for (let attempt = 0; attempt < 3 && last > 9 * first; attempt++) {
    first = Math.max(4, Math.min(first, cpuOf(call, textOf(length))));
    last = Math.min(last, cpuOf(call, textOf(4 * length)));
  }
  expect(last / first, `growth for ${JSON.stringify(unit)}`).toBeLessThan(9);
  expect(last, `milliseconds for ${JSON.stringify(unit)}`).toBeLessThan(1_000);
}

/** The tests of a function that takes foreign text. */
export function testLinearTime(call: (text: string) => unknown, more: readonly string[] = [], numRuns = 20): void {
  const all = [...fragments, ...more];

  test("for repeated fragments", () => {
    for (const fragment of all) expectLinear(call, fragment);
  });

  test("for random combinations of them", () => {
    const unit = fc.array(fc.constantFrom(...all), { minLength: 2, maxLength: 4 }).map((parts) => parts.join(""));
    const affixes = [fc.constantFrom("", "x", "<a ", "```\n"), fc.constantFrom("", "!")] as const;
    fc.assert(
      fc.property(unit, ...affixes, (text, prefix, suffix) => expectLinear(call, text, prefix, suffix)),
      { numRuns },
    );
  });
}
