import fc from "fast-check";
import { expect, test } from "vitest";
import { writeToolCommand } from "#runtime/effects/person-calls.ts";
import { parseCommand } from "#ui/command.ts";
import { propertyRuns } from "../../support/property-runs.ts";

test.each([
  [{ branch: "golem/7-a", b: "x", force: true, f: true }, "/tool git_push --branch golem/7-a -b x --force -f"],
  [{ message: 'say "hi"\\' }, '/tool git_push --message="say \\"hi\\"\\\\"'],
  [{ count: "-1", empty: "" }, '/tool git_push --count="-1" --empty=""'],
])("%j is written as a person would write it", (options, line) => {
  expect(writeToolCommand("git_push", options)).toBe(line);
});

test("any options are written as a line that is parsed to the same options", () => {
  const name = fc.stringMatching(/^[a-z][a-z_-]{0,10}$/);
  const value = fc.oneof(fc.string(), fc.constant(true), fc.constantFrom("—x", "--", "-", "“", "a=b", "'", "\\"));
  fc.assert(
    fc.property(fc.dictionary(name, value), (options) => {
      const parsed = parseCommand(writeToolCommand("git_push", options));

      expect(parsed).toMatchObject({ name: "tool", args: ["git_push"] });
      expect(parsed?.options).toEqual({ ...options });
    }),
    { numRuns: propertyRuns(1_000) },
  );
});
