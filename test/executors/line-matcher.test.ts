import fc from "fast-check";
import { RE2JS } from "re2js";
import { expect, test } from "vitest";
import { requiredLiteral } from "#executors/memory/search-command.ts";

test("the required literal is contained in every match", () => {
  const piece = fc.constantFrom(
    "a",
    "b",
    "ab",
    ".",
    "\\d",
    "\\.",
    "[ab]",
    "[^]b]",
    "[]b]",
    "[[:digit:]b]",
    "a*",
    "b+",
    "a?",
    "b{2}",
    "(a|b)",
    "^",
    "$",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), fc.stringMatching(/^[ab.1]{0,12}$/), (pieces, text) => {
      const pattern = pieces.join("");
      let expression: RE2JS;
      try {
        expression = RE2JS.compile(pattern);
      } catch {
        return;
      }
      if (expression.test(text)) expect(text).toContain(requiredLiteral(pattern));
    }),
  );
  expect(requiredLiteral("function\\s+add")).toBe("function");
});
