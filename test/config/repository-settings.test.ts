import { expect, test } from "vitest";
import {
  describeApprovers,
  findApproverProblem,
  narrowLimits,
  parseRepositorySettings,
} from "#config/repository-settings.ts";
import { Limits } from "#domain/worker.ts";

test("a repository without settings narrows nothing", () => {
  const settings = parseRepositorySettings(undefined);

  expect(narrowLimits(Limits.parse({ steps: 7 }), settings)).toEqual(Limits.parse({ steps: 7 }));
  expect(findApproverProblem(settings, { by: "ada", requestedBy: "ada" })).toBeUndefined();
});

test("limits of the repository cap those of the worker and never raise them", () => {
  const settings = parseRepositorySettings("limits: { steps: 10, cost: 0.5 }");

  expect(narrowLimits(Limits.parse({ steps: 50, cost: 0.1 }), settings)).toMatchObject({ steps: 10, cost: 0.1 });
});

test("only the listed people approve, in whatever case their names are written", () => {
  const settings = parseRepositorySettings("approvers: [Ada]");

  expect(findApproverProblem(settings, { by: "ada", requestedBy: "bob" })).toBeUndefined();
  expect(findApproverProblem(settings, { by: "bob", requestedBy: "ada" })).toContain(
    "@bob is not among those who approve here: @Ada",
  );
});

test("where a second person is asked for, nobody approves what they started", () => {
  const settings = parseRepositorySettings("second_person: true");

  expect(findApproverProblem(settings, { by: "ada", requestedBy: "Ada" })).toContain("a second person has to approve");
  expect(findApproverProblem(settings, { by: "bob", requestedBy: "ada" })).toBeUndefined();
});

test("who may approve is said in words", () => {
  const words = (text: string) => describeApprovers(parseRepositorySettings(text), "ada");

  expect(words("")).toBe("Anyone with write access");
  expect(words("approvers: [grace, bob]")).toBe("@grace or @bob");
  expect(words("second_person: true")).toBe("Anyone with write access, but not @ada, who started this run,");
});

test.each([
  ["wokers: [fixer]", "unknown field wokers, did you mean workers."],
  ["limits: { step: 1 }", "unknown field limits.step, did you mean steps."],
  ["limits: { steps: 0 }", "limits.steps"],
  ["limits: { steps: 1e9 }", "limits.steps"],
  ["limits: { steps: 10abc }", "limits.steps"],
  ["approvers: []", "approvers"],
  ["a: [", "is not YAML"],
  ["just words", "cannot be used"],
])("%j is refused with a sentence", (text, sentence) => {
  expect(() => parseRepositorySettings(text)).toThrow(sentence);
});
