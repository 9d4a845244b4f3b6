import fc from "fast-check";
import { parseHTML } from "linkedom";
import { expect, test } from "vitest";
import { markdownToHtml } from "#text/markdown-to-html.ts";
import { propertyRuns } from "../support/property-runs.ts";

function show(text: string): string {
  return markdownToHtml(text, "/playground/shop").trim();
}

test.each([
  ["- [x] done\n- [ ] open", /☑<\/span> done[\s\S]*☐<\/span> open/],
  [
    "<details>\n<summary>Log</summary>\n\n```diff\n+ one\n```\n\n</details>",
    /<details>[\s\S]*<code class="language-diff">\+ one/,
  ],
  ["see #12", /<a href="\/playground\/shop\/issues\/12"[^>]*>#12<\/a>/],
  ["`#12`", /<code>#12<\/code>/],
  ["one\n<!-- golem-forge:hidden -->", /^<p>one<\/p>$/],
  ["| a |\n|---|\n| b |", /<table tabindex="0">[\s\S]*<td>b<\/td>/],
])("%j is rendered as on GitHub", (text, expected) => {
  expect(show(text)).toMatch(expected);
});

test.each([
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "[click](javascript:alert(1))",
  '<a href="jav&#x09;ascript:alert(1)">x</a>',
  "<details open ontoggle=alert(1)>x</details>",
  '<form action="/x"><button formaction="javascript:alert(1)">go</button></form>',
  "<style>*{display:none}</style><svg><animate onbegin=alert(1)></svg>",
  '<iframe srcdoc="<script>alert(1)</script>">',
  "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
])("%j is harmless", (text) => {
  expect(dangersIn(show(text))).toEqual([]);
});

test("any text is rendered to harmless HTML", () => {
  const piece = fc.oneof(
    fc.constantFrom(
      "<",
      ">",
      '"',
      "'",
      "`",
      "\n",
      "](",
      "javascript:",
      "<img onerror=x ",
      "<a href=",
      "<!--",
      "#1",
      "&#60;",
    ),
    fc.string({ maxLength: 8 }),
  );

  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => dangersIn(show(pieces.join(""))).length === 0),
    { numRuns: propertyRuns(300) },
  );
});

function dangersIn(html: string): string[] {
  const { document } = parseHTML(`<!doctype html><html><body>${html}</body></html>`);
  return [...document.body.querySelectorAll("*")].flatMap((node) => {
    const tag = /^(script|style|iframe|object|embed|form|input|button|svg|math|img|link|meta|base)$/i.test(
      node.localName,
    );
    const attributes = [...node.attributes].filter(
      ({ name, value }) =>
        /^on|^style$|^src|^formaction$/i.test(name) || /^\s*(javascript|data|vbscript):/i.test(value),
    );
    return [...(tag ? [node.localName] : []), ...attributes.map(({ name }) => name)];
  });
}
