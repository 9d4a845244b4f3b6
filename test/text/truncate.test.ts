import fc from "fast-check";
import { expect, test } from "vitest";
import { truncateText } from "#text/truncate.ts";

test("a cut leaves no half of a word, so that a secret is left whole, and known, or not at all", () => {
  const secret = "s3cr3t-0123456789-abcdefghijklmnopqrstuvwxyz";
  fc.assert(
    fc.property(fc.array(fc.constantFrom("a", "words of a line", secret), { maxLength: 200 }), (words) => {
      const rest = truncateText(words.join(" "), 1_000).replaceAll(secret, "");

      expect(rest).not.toMatch(/s3cr|uvwxyz/);
    }),
  );
});

test.each(["x".repeat(5_000), `${"x".repeat(3_000)} ${"y".repeat(3_000)}`])(
  "a text without words is cut where it must be",
  (text) => {
    const cut = truncateText(text, 1_000);

    expect(cut.length).toBeGreaterThan(900);
    expect(cut.length).toBeLessThanOrEqual(1_000);
  },
);
