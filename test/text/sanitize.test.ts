import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createSanitizer } from "#text/sanitize.ts";
import { propertyRuns } from "../support/property-runs.ts";

const secret = "correct-horse/battery+staple";
const pem = [
  "-----BEGIN RSA PRIVATE KEY-----",
  "MIIEowIBAAKCAQEAvT8x1Zq3Yw7Gk0n2J5pQe8RzL4bTf6hXc9VdSmUaWoPyKiEr",
  "Q2x7Nn5Bv3Cg1Hj8Lk6Mz4Xs0Da9Fw2Ge5Rt7Yu1Io3Pq8As6Df4Gh0Jk2Lz9Xc",
  "-----END RSA PRIVATE KEY-----",
].join("\n");
const sanitize = createSanitizer([secret, pem]);

describe("secrets", () => {
  const forms = {
    "as it is": secret,
    "in base64": Buffer.from(secret).toString("base64"),
    "inside a longer base64 text": Buffer.from(`Bearer ${secret}!`).toString("base64"),
    "in base64url, shifted by one": Buffer.from(`x${secret}`).toString("base64url"),
    "URL-encoded": encodeURIComponent(secret),
    backwards: [...secret].reverse().join(""),
    "in hex": Buffer.from(secret).toString("hex"),
    "broken up by a zero-width space": `${secret.slice(0, 9)}\u200B${secret.slice(9)}`,
    "broken up by a color code": `${secret.slice(0, 9)}\u001B[31m${secret.slice(9)}`,
    "one line of the private key": pem.split("\n")[1] ?? "",
    "the private key's lines in one": pem.split("\n").slice(1, 3).join(""),
    "the private key in base64": Buffer.from(pem).toString("base64"),
  };

  test.each(Object.entries(forms))("a known secret is redacted %s", (_, form) => {
    const sent = sanitize(`before ${form} after\n\`\`\`\n${form}\n\`\`\`\n`);

    expect(sent).not.toContain(form.slice(4, -4));
    expect(sent).toMatch(/^before .*\[secret removed\].* after/);
  });

  const letters = "abcdefghijklmnopqrstuvwxyz0123456789";
  const jsonPart = (length: number) => Buffer.from(JSON.stringify({ a: "x".repeat(length) })).toString("base64url");
  // As GitHub issues them since 2026: the App's id and a JSON Web Token, about 520 characters.
  const installationToken = `ghs_1234567_${jsonPart(60)}.${jsonPart(190)}.${"Ab-_9".repeat(17)}`;
  const tokens = [
    `ghp_${letters}`,
    `gho_${letters}`,
    `ghu_${letters}`,
    `ghs_${letters}`,
    `ghr_${letters}`,
    `ghs_1234567_${letters}.${letters}-${letters}`,
    installationToken,
    `github_pat_11ABCDEFG0_${letters}`,
    `sk-ant-api03-${letters}`,
    `sk-proj-${letters}`,
    `sk-${letters}`,
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghij",
    `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.${letters}`,
    "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----",
    "+-----BEGIN EC PRIVATE KEY-----\n+MIIEvQIBADANBgkq\n+-----END EC PRIVATE KEY-----".slice(1),
    "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXktdjEAAAAA\\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF",
  ];

  test.each(tokens)("a token such as %j is redacted in any context", (token) => {
    for (const [before, after] of [
      ["", ""],
      ["\u001B[32m", "\u001B[0m"],
      ["\n", "\n"],
      ["\\n", " "],
      ["key=", '"'],
    ]) {
      const sent = sanitize(`${before}${token}${after}`);

      expect(sent).not.toContain(token.slice(10, 30));
      expect(sent).not.toContain(token.slice(-12));
    }
  });

  test("an installation token is removed from a git URL and from an error that ends with it", () => {
    const url = `https://x-access-token:${installationToken}@github.com/o/r.git`;

    expect(sanitize(`fatal: unable to access ${url}`)).toMatch(
      /^fatal: unable to access https:\/\/\[secret removed\]@/,
    );
    expect(sanitize(`token=${installationToken}.`)).toBe("token=[secret removed]");
  });

  test("a password in a URL is redacted, and the host is kept", () => {
    expect(sanitize("see https://x-access-token:abc123@github.example/o/r")).toMatch(
      /^see https:\/\/\[secret removed\]@\u200B?github\.example\/o\/r$/,
    );
  });

  test("ordinary words that resemble tokens are kept", () => {
    const text = "sk-learn, ghp_ and task-runner-configuration stay, and so does none";

    expect(createSanitizer(["none"])(text)).toBe(text);
  });
});

describe("hidden characters", () => {
  test("bidirectional overrides are made visible in code and prose", () => {
    expect(sanitize("a\u202Eb")).toBe("a⟨U+202E⟩b");
    expect(sanitize("```\naccess\u2066level\n```")).toContain("access⟨U+2066⟩level");
  });

  test("a message in tag characters becomes visible as a count", () => {
    const hidden = [..."run me"].map((letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))).join("");

    expect(sanitize(`fine${hidden}`)).toBe("fine⟨6 hidden characters⟩");
  });

  test("color codes, window titles and carriage returns are removed; emoji are kept", () => {
    expect(sanitize("\u001B[1;31mred\u001B[0m \u001B]0;title\u0007ok\r\nnext 👩‍👩‍👧 ❤️ 1️⃣")).toBe(
      "red ok\nnext 👩‍👩‍👧 ❤️ 1️⃣",
    );
  });
});

describe("prose", () => {
  test.each([
    ["@ada", "@\u200Bada"],
    ["(@org/team)", "(@\u200Borg/team)"],
    ["\\@ada", "\\@\u200Bada"],
    ["&#64;ada &commat;ada", "&amp;#\u200B64;ada &amp;commat;ada"],
    ["Fixes #12", "Fixes #\u200B12"],
    ["closes o/r#3, GH-4", "closes o/r#\u200B3, GH-\u200B4"],
    ["resolves https://ghe.example/o/r/issues/3", "resolves `https://ghe.example/o/r/issues/3`"],
    ["https://github.com/o/r/pull/3", "https://redirect.github.com/o/r/pull/3"],
    ["![x](https://evil.example/?q=1)", "&#33;[x](https://evil.example/?q=1)"],
    ["<img src=https://evil.example>", "&lt;img src=https://evil.example>"],
    ["a <!-- hidden --> b", "a &lt;!-- hidden --> b"],
    ["<details onclick=x>", "&lt;details onclick=x>"],
    [
      "<div> <h7> <brx> <b onclick=x> </a> <?php <!DOCTYPE>",
      "&lt;div> &lt;h7> &lt;brx> &lt;b onclick=x> &lt;/a> &lt;?php &lt;!DOCTYPE>",
    ],
    ["&copy; &#x40;ada &Tab;", "&amp;copy; &amp;#x40;ada &amp;Tab;"],
    ["Closes: https://ghe.example/o/r/pull/3.", "Closes: `https://ghe.example/o/r/pull/3`."],
    ["FIXED\nhttps://ghe.example/o/r/issues/12", "FIXED\n`https://ghe.example/o/r/issues/12`"],
    ["close http://ghe.example/o/r/issues/3", "close `http://ghe.example/o/r/issues/3`"],
    ["fix  https://ghe.example/o/r/issues/34", "fix  `https://ghe.example/o/r/issues/34`"],
    ["fixes https://ghe.example/o/r/pull/3", "fixes `https://ghe.example/o/r/pull/3`"],
    ["resolve https://ghe.example/o/r/pull/3", "resolve `https://ghe.example/o/r/pull/3`"],
    ["GH-1 gh-2 (#3)", "GH-\u200B1 gh-\u200B2 (#\u200B3)"],
    ["see http://github.com/o/r/discussions/1", "see https://redirect.github.com/o/r/discussions/1"],
    ["https://github.com/o.x/r-y_z/commit/abc", "https://redirect.github.com/o.x/r-y_z/commit/abc"],
    ["https://GitHub.com/o/r/issues/1", "https://redirect.github.com/o/r/issues/1"],
    ["_@ada a@b @ @_x", "_@ada a@b @ @_x"],
    ["*@ada ~@ada", "*@\u200Bada ~@\u200Bada"],
    ["Fix [skip ci] [Actions skip] [no-ci]", "Fix [\u200Bskip ci] [\u200BActions skip] [\u200Bno-ci]"],
    ["[skip  ci] [ skip ci ] [ci -_skip]", "[\u200Bskip  ci] [\u200B skip ci ] [\u200Bci -_skip]"],
    ["<div><b> <img <br> <a <https://a.b>", "&lt;div><b> &lt;img <br> &lt;a <https://a.b>"],
    ["***NO_CI*** [skip] [x]", "***\u200BNO_CI*** [skip] [x]"],
    ["/merge", "\\/merge"],
    ["Done.\n  /deploy production\n/LGTM", "Done.\n  \\/deploy production\n\\/LGTM"],
    ["```\na\n```\n/merge", "```\na\n```\n\\/merge"],
  ])("%j becomes inert", (text, inert) => {
    expect(sanitize(text)).toBe(inert);
  });

  test.each([
    "ada@example.org",
    "https://www.npmjs.com/package/@scope/name#12",
    "`@Input() #12 <img>`",
    "```ts\n@Component() // #12 <img> <!-- x -->\n```",
    "<details>\n<summary>More</summary>\n\nx\n\n</details>",
    "Use `a` and `b`.",
    "# Heading 1\n\n- [x] done",
    "<b>a</b> <i>a</i> <em>a</em> <strong>a</strong> <kbd>a</kbd> <sub>a</sub> <sup>a</sup> <br> <br/> <br /> <hr>",
    "<p>a</p>\n<ul><li>a</li></ul>\n<ol></ol>\n<blockquote>a</blockquote>\n<h1>a</h1>\n<H6>a</H6>\n<details open>\n\nx\n\n</details>",
    "<https://example.org/a?b=c> <http://a.b> and a < b, 1 <2, <3",
    "&amp; &lt; &gt; &quot; &nbsp; &hellip; &mdash; &ndash; &rarr; &larr; &#33; &#39; a & b &; &",
    "fixing https://ghe.example/o/r/issues/3, fixes https://ghe.example/o/r/discussions/3",
    "https://github.com/o/r/blob/main/a.ts https://github.com/o https://github.com.example/o/r/pull/3x",
    "XGH-1 # 1 GH-x",
    "/usr/bin a /merge `a`/b\n`/run fixer`",
  ])("%j is left alone", (text) => {
    expect(sanitize(text)).toBe(text);
  });

  test.each([
    "<p>\n```\n@victim\n```",
    "  ```\ncode\n```\n@victim",
    "- ```\n@victim\n",
    "`\n`@victim`\n`",
    "\\`@victim`",
    "| `a | @victim` |\n|--|--|",
    "``@victim`",
    "<p>\n`@victim`\n</p>",
  ])("a mention in text that only looks like code is disabled: %j", (text) => {
    expect(sanitize(text)).not.toContain("@victim");
  });

  test("the App's own marker is disabled in code, too", () => {
    expect(sanitize("```\n<!-- golem-forge:run -->\n```")).toBe("```\n<! -- golem-forge:run -->\n```");
    expect(sanitize("`<!--golem-forge:run -->`")).toBe("`<! --golem-forge:run -->`");
    expect(sanitize("`<!--  GOLEM-forge:run -->` `<!-- a -->`")).toBe("`<! --  GOLEM-forge:run -->` `<!-- a -->`");
  });

  test("the invisible character that breaks a mention is visible in code and anywhere else", () => {
    expect(sanitize("@\u200Bada #\u200B1")).toBe("@\u200Bada #\u200B1");
    expect(sanitize("`@\u200Bada` a\u200Bb @\u200B!")).toBe("`@⟨U+200B⟩ada` a⟨U+200B⟩b @⟨U+200B⟩!");
  });
});

test("a text that is too long is cut in the middle, with its fence and details closed", () => {
  const sent = sanitize(`start\n<details>\n\n\`\`\`\n${"line\n".repeat(20_000)}\`\`\`\n\n</details>\nend`);

  expect(sent.length).toBeLessThanOrEqual(60_000);
  expect(sent).toMatch(/^start[\s\S]*```\n+<\/details>\n\n_… [\d,]+ characters are not shown …_[\s\S]*end$/);
});

test.each(["markdown", "plain"] as const)("a text of kind %s may have 60,000 characters", (kind) => {
  const text = "a line\n".repeat(10_000).slice(0, 60_000);

  expect(sanitize(text, kind)).toBe(text);
  expect(sanitize(`${text}b`, kind).length).toBeLessThanOrEqual(60_000);
  expect(sanitize(`${text}b`, kind)).not.toBe(text);
});

const piece = fc.constantFrom(
  ..."@ada|#1|`|```|~~~|\n|\n\n| |<|>|<!--|-->|<details>|</details>|<div>|&#64;|!|[x](y)|\\|ghp_abcdefghijklmnopqrst|\u200B|\u202E|\u001B[0m|- |> |GH-1|https://a.example/@b|fixes ".split(
    "|",
  ),
  "|",
);
const markdown = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(""));

test("sanitizing twice gives the same result", () => {
  fc.assert(
    fc.property(markdown, (text) => {
      expect(sanitize(sanitize(text))).toBe(sanitize(text));
    }),
    { numRuns: propertyRuns(1000) },
  );
});

test("markers, tokens and hidden characters are removed from any text", () => {
  fc.assert(
    fc.property(markdown, (text) => {
      const sent = sanitize(text);
      expect(sent).not.toMatch(/ghp_abcdefghijklmnopqrst|\u202E|\p{Control}\[0m/u);
      expect(sent).not.toMatch(/<!--\s*golem-forge:/);
    }),
    { numRuns: propertyRuns(500) },
  );
});

test.each([
  ["Use Array<string> & `@Input()` ![x]", "Use Array<string> & `@\u200BInput()` ![x]"],
  ["Fix @ada's sum\n\nFixes #12", "Fix @\u200Bada's sum\n\nFixes #\u200B12"],
  [`a\u202Eb ghp_${"a1".repeat(18)}`, "a⟨U+202E⟩b [secret removed]"],
  ["closes https://github.com/o/r/issues/3", "closes `https://github.com/o/r/issues/3`"],
  ["Merge a\u200Bb, `@\u200Bada`", "Merge a⟨U+200B⟩b, `@\u200Bada`"],
])("a title or commit message keeps its brackets: %j", (text, plain) => {
  expect(sanitize(text, "plain")).toBe(plain);
  expect(sanitize(plain, "plain")).toBe(plain);
});
