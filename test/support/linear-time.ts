import fc from "fast-check";
import { expect, test } from "vitest";

/** Fragments that make parsers retry, look ahead or backtrack. */
const fragments = [
  ...[
    "eyJ",
    "eyJaaaaaaaa",
    "eyJaaaaaaaa.",
    "ghp_",
    "ghs_1_eyJ",
    "gho_aaaaaaaaaaaaaaaa.",
    "ghs_1\n",
    "aA1aA1aA1aA1aA1aA1aA1aA1\n",
    "eC1hY2Nlc3MtdG9rZW46",
    "sk-",
    "sk-ant-",
    "xoxb-",
  ],
  ...["-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\n", "-----BEGIN ", "\\n"],
  ...["https://a:", "http://", "https://a.", ":", "@", "@a ", "#1", "GH-1", "closes https://a/issues/1 ", "fixes "],
  ...["[", "![", "![a](", "](", "[a]: b\n", "[a]", "`", "`a", "`a`\n", "```\n", "```a`\n", "~~~\n"],
  ...["<", "<a ", '<a b="', "</", "<!--", "<?", "<![CDATA[", "<details>", "</details>", "<b>", "&#1", "&amp;"],
  ...["*", "**a", "*a_", "_a", "\\", "\n", "\n\n", "\r", "\r\n", " ", "\t", " \n", "> ", "- ", "- a\n", "# a\n"],
  ...["| a |\n|-|\n", "a", "a ", "a\n", "\u200B", "a\u200B", "\u001B[", "\u001B]", "\u009B", "👩\u200D", "\uD800"],
  ...[
    "⟨",
    "⟩",
    "\u0301",
    "漢",
    "א",
    "א+",
    "{",
    "[{",
    "{a: ",
    "a: b\n",
    "&a ",
    "*a ",
    "? ",
    "'",
    '"',
    "!!a ",
    "%a\n",
    "---\n",
  ],
  ...["untrusted", "</untrusted", "{1,9}", "(a|b)", "[a-z]", "a*", '{"a":', "www.a.", "a@b."],
];

/** Lengths in KB. The last is that of the longest text the product processes. */
const lengths = [16, 64, 256];
/** Milliseconds of CPU for the longest text. Quadratic functions take minutes, linear ones far less than this. */
const maxCpu = 2_500;
/** The resolution of a thread's CPU clock on some systems, in milliseconds. */
const clockMs = 4;

/** Returns milliseconds of CPU time, which do not depend on the machine's load. */
function cpuOf(call: (text: string) => unknown, text: string): number {
  const before = process.threadCpuUsage();
  call(text);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/**
 * Checks that even the longest text is processed quickly. Ratios of times would be more precise but are unreliable:
 * garbage collection may run at any time.
 */
function expectLinear(call: (text: string) => unknown, unit: string, prefix = "", suffix = ""): void {
  for (const kilobytes of lengths) {
    const text = prefix + unit.repeat(Math.ceil((kilobytes * 1024) / unit.length)) + suffix;
    const start = performance.now();
    let cpu = cpuOf(call, text);
    // On a busy machine more time passes than the function takes, and the clock of its CPU time is coarse.
    const spent = Math.min(performance.now() - start, cpu + clockMs);
    // Even with quadratic growth, the longest text would be within the limit.
    if (spent < maxCpu * (kilobytes / 256) ** 2) return;

    for (let attempt = 0; attempt < 2 && cpu > maxCpu; attempt++) cpu = Math.min(cpu, cpuOf(call, text));
    expect(cpu, `milliseconds for ${kilobytes} KB of ${JSON.stringify(unit)}`).toBeLessThan(maxCpu);
  }
}

/** `LINEAR_TIME=all` repeats every fragment for every function; otherwise each gets a part of them, and of the combinations. */
const everyFragment = process.env.LINEAR_TIME === "all";
const sampled = 32;
let functions = 0;

/** Defines the tests of a function that takes untrusted text. */
export function testLinearTime(call: (text: string) => unknown, more: readonly string[] = [], combinations = 20): void {
  const all = [...fragments, ...more];
  const first = functions++ % sampled;

  test("for repeated fragments", () => {
    const repeated = everyFragment ? all : all.filter((_, index) => index % sampled === first);
    for (const fragment of repeated) expectLinear(call, fragment);
  });

  test("for random combinations of them", () => {
    const unit = fc.array(fc.constantFrom(...all), { minLength: 2, maxLength: 4 }).map((parts) => parts.join(""));
    const affixes = [fc.constantFrom("", "x", "<a ", "```\n"), fc.constantFrom("", "!")] as const;
    fc.assert(
      fc.property(unit, ...affixes, (text, prefix, suffix) => expectLinear(call, text, prefix, suffix)),
      // Each shrinking step would be as slow as the failure.
      { numRuns: everyFragment ? combinations : Math.ceil(combinations / sampled), endOnFailure: true },
    );
  });
}
