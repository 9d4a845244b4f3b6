import { expect, test } from "vitest";
import { approvalRules, narrowLimits, parseRepositorySettings } from "#config/repository-settings.ts";
import { Limits } from "#domain/worker.ts";

test("without a settings file nothing is restricted", () => {
  const settings = parseRepositorySettings(undefined);

  expect(narrowLimits(Limits.parse({ steps: 7 }), settings)).toEqual(Limits.parse({ steps: 7 }));
  expect(approvalRules(settings)).toEqual([]);
});

test("the repository's limits lower those of the worker and never raise them", () => {
  const settings = parseRepositorySettings("limits: { steps: 10, cost: 0.5 }");

  expect(narrowLimits(Limits.parse({ steps: 50, cost: 0.1 }), settings)).toMatchObject({ steps: 10, cost: 0.1 });
});

test("approvers and second_person are short for rules about every call", () => {
  const settings = parseRepositorySettings("approvers: [ada, 5]\nsecond_person: true\napprovals: [{ required: 2 }]");

  expect(approvalRules(settings)).toEqual([
    { people: ["ada", 5], permission: "write", required: 1, codeowners: false },
    { exclude: "requester", permission: "write", required: 1, codeowners: false },
    { permission: "write", required: 2, codeowners: false },
  ]);
});

test.each([
  ["wokers: [fixer]", "Unknown field wokers. Did you mean workers?"],
  ["limits: { step: 1 }", "Unknown field limits.step. Did you mean steps?"],
  ["limits: { steps: 0 }", "limits.steps"],
  ["limits: { steps: 1e9 }", "limits.steps"],
  ["limits: { steps: 10abc }", "limits.steps"],
  ["approvers: []", "approvers"],
  ["approvals: [{ tool: [git_push] }]", "Unknown field approvals.0.tool. Did you mean tools?"],
  ["approvals: [{ required: 0 }]", "approvals.0.required"],
  ["approvals: [{ permission: read }]", "approvals.0.permission"],
  ["approvals: [{ codeowners: true, people: [ada] }]", "write two rules"],
  ["a: [", "is not valid YAML"],
  ["just words", "is not valid"],
])("rejects %j", (text, message) => {
  expect(() => parseRepositorySettings(text)).toThrow(message);
});
