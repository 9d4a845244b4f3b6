import { expect, test } from "vitest";
import {
  describeApprovers,
  findApproverProblem,
  narrowLimits,
  parseRepositorySettings,
} from "#config/repository-settings.ts";
import { Limits } from "#domain/worker.ts";

test("without a settings file nothing is restricted", () => {
  const settings = parseRepositorySettings(undefined);

  expect(narrowLimits(Limits.parse({ steps: 7 }), settings)).toEqual(Limits.parse({ steps: 7 }));
  expect(findApproverProblem(settings, { by: "ada", requestedBy: "ada" })).toBeUndefined();
});

test("the repository's limits lower those of the worker and never raise them", () => {
  const settings = parseRepositorySettings("limits: { steps: 10, cost: 0.5 }");

  expect(narrowLimits(Limits.parse({ steps: 50, cost: 0.1 }), settings)).toMatchObject({ steps: 10, cost: 0.1 });
});

test("only listed people may approve; logins are compared without case", () => {
  const settings = parseRepositorySettings("approvers: [Ada]");

  expect(findApproverProblem(settings, { by: "ada", requestedBy: "bob" })).toBeUndefined();
  expect(findApproverProblem(settings, { by: "bob", requestedBy: "ada" })).toContain(
    "@bob may not approve here. Approvers: @Ada.",
  );
});

test("with second_person, nobody approves calls of their own run", () => {
  const settings = parseRepositorySettings("second_person: true");

  expect(findApproverProblem(settings, { by: "ada", requestedBy: "Ada" })).toContain(
    "requires approval by a second person",
  );
  expect(findApproverProblem(settings, { by: "bob", requestedBy: "ada" })).toBeUndefined();
});

test("describes who may approve", () => {
  const describe = (text: string) => describeApprovers(parseRepositorySettings(text), "ada");

  expect(describe("")).toBe("Anyone with write access");
  expect(describe("approvers: [grace, bob]")).toBe("@grace or @bob");
  expect(describe("second_person: true")).toBe("Anyone with write access, but not @ada, who started this run,");
});

test.each([
  ["wokers: [fixer]", "Unknown field wokers. Did you mean workers?"],
  ["limits: { step: 1 }", "Unknown field limits.step. Did you mean steps?"],
  ["limits: { steps: 0 }", "limits.steps"],
  ["limits: { steps: 1e9 }", "limits.steps"],
  ["limits: { steps: 10abc }", "limits.steps"],
  ["approvers: []", "approvers"],
  ["a: [", "is not valid YAML"],
  ["just words", "is not valid"],
])("rejects %j", (text, message) => {
  expect(() => parseRepositorySettings(text)).toThrow(message);
});
