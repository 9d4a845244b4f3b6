import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  applyPolicy,
  DeploymentPolicy,
  defaultPolicy,
  findPolicyModelProblem,
  readDeploymentPolicy,
} from "#config/deployment-policy.ts";
import { parseWorker } from "#domain/worker.ts";

const greedy = parseWorker(
  "---\nname: greedy\ntoolsets: { shell: {}, web: {} }\nlimits: { cost: 999999999, steps: 1000, minutes: 1440 }\n---\nTake all.",
  "greedy.worker",
);

describe("policy of a deployment", () => {
  test("the policy of a deployment bounds every limit of a worker", () => {
    expect(applyPolicy(defaultPolicy, greedy, "repository").limits).toMatchObject({
      cost: 20,
      steps: 200,
      minutes: 240,
    });
  });

  test("the policy of a deployment refuses toolsets in a repository's own worker, but not in the deployment's", () => {
    const policy = DeploymentPolicy.parse({ toolsets: ["filesystem", "shell"] });

    expect(() => applyPolicy(policy, greedy, "repository")).toThrow("does not allow the toolset web");
    expect(applyPolicy(policy, greedy, "deployment").toolsets).toHaveProperty("web");
  });

  test("the policy of a deployment refuses the search of the model's provider where it refuses the toolset web", () => {
    const searching = parseWorker(
      "---\nname: searching\ntoolsets: { search: {} }\nserver_side_tools: [{ name: web_search }]\n---\nSearch.",
      "searching.worker",
    );
    const [closed, open] = [["search"], ["search", "web"]].map((toolsets) => DeploymentPolicy.parse({ toolsets }));

    expect(() => applyPolicy(closed ?? defaultPolicy, searching, "repository")).toThrow(
      "does not allow the toolset web in a repository's own worker, nor the search of the model's provider",
    );
    expect(applyPolicy(open ?? defaultPolicy, searching, "repository").server_side_tools).toHaveLength(1);
    expect(applyPolicy(closed ?? defaultPolicy, searching, "deployment").server_side_tools).toHaveLength(1);
  });

  test("the policy of a deployment allows models by pattern", () => {
    const policy = DeploymentPolicy.parse({ models: ["anthropic:claude-haiku-*"] });

    expect(findPolicyModelProblem(policy, "anthropic:claude-haiku-4-5")).toBeUndefined();
    expect(findPolicyModelProblem(policy, "anthropic:claude-opus-5")).toContain("Allowed: anthropic:claude-haiku-*");
  });
});

describe("a policy file", () => {
  const write = (text: string) => {
    const file = join(mkdtempSync(join(tmpdir(), "golem-forge-policy-")), "policy.yml");
    writeFileSync(file, text);
    return file;
  };

  test("a policy file that is valid is read, with defaults for what it leaves out", () => {
    expect(readDeploymentPolicy(write("limits: { cost: 2 }"))).toMatchObject({ limits: { cost: 2, steps: 200 } });
  });

  test.each([
    ["that is missing", "/nonexistent/policy.yml", "cannot be read"],
    ["that is empty", write(""), "is empty"],
    ["that has only comments", write("# models: [anthropic:*]\n"), "is empty"],
    ["with a field it does not know", write("limit: { cost: 2 }"), "Did you mean limits?"],
    ["that is not valid YAML", write("limits: [cost"), "policy.yml is not"],
  ])("%s starts nothing", (_, file, sentence) => {
    expect(() => readDeploymentPolicy(file)).toThrow(sentence);
  });
});
