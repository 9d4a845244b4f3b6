import fc from "fast-check";
import { expect, test } from "vitest";
import { truncateText } from "#text/truncate.ts";

test("a cut never splits a word, so that no half of a secret remains", () => {
  const secret = "s3cr3t-0123456789-abcdefghijklmnopqrstuvwxyz";
  fc.assert(
    fc.property(fc.array(fc.constantFrom("a", "words of a line", secret), { maxLength: 200 }), (words) => {
      const rest = truncateText(words.join(" "), 1_000).replaceAll(secret, "");

      expect(rest).not.toMatch(/s3cr|uvwxyz/);
    }),
  );
});

test.each(["x".repeat(5_000), `${"x".repeat(3_000)} ${"y".repeat(3_000)}`])(
  "a text without spaces is cut inside the word",
  (text) => {
    const cut = truncateText(text, 1_000);

    expect(cut.length).toBeGreaterThan(900);
    expect(cut.length).toBeLessThanOrEqual(1_000);
  },
);
