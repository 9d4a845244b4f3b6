import { readdirSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { turnOf } from "#playground/model/model-server.ts";
import { type Forge, startForge } from "../support/forge-world.ts";

const names = readdirSync("workers").map((file) => file.replace(/\.worker$/, ""));

let forge: Forge | undefined;

afterEach(async () => {
  await forge?.close();
  forge = undefined;
});

test("every worker that ships starts, has its tools, reads the repository and answers", async () => {
  const offered = new Map<string, string[]>();
  forge = await startForge({
    script: ({ messages, tools }) => {
      const [, name = ""] = /For (\S+?)\\n/.exec(JSON.stringify(messages)) ?? [];
      offered.set(
        name,
        tools.map((tool) => tool.function.name),
      );
      if (turnOf(messages) === 0) return { calls: [{ name: "list_files", args: { path: "" } }] };
      return { text: `I saw ${/src/.test(JSON.stringify(messages.at(-1))) ? "src" : "nothing"}.` };
    },
  });
  await forge.start();
  const maintainer = forge.github.as("maintainer");
  for (const name of names) {
    const issue = maintainer.openIssue({ title: `For ${name}`, body: "Do what you do." });
    maintainer.comment(issue.number, `/run ${name}`);
    await forge.botComment(issue.number, /I saw src/);
  }

  expect(names.filter((name) => !offered.has(name))).toEqual([]);
  expect(offered.get("main")).toEqual(expect.arrayContaining(["fixer", "tester", "documenter", "open_pull_request"]));
  expect(offered.get("ci-doctor")).toEqual(expect.arrayContaining(["read_checks", "run_tests", "update_pull_request"]));
  expect(offered.get("upgrader")).toEqual(expect.arrayContaining(["install_package", "web_fetch"]));
  for (const reader of ["explainer", "explorer", "planner", "triager"]) {
    expect(offered.get(reader), reader).not.toEqual(expect.arrayContaining(["open_pull_request"]));
  }
});
