import type { Workspace } from "#workspace.ts";
import { type PackageManifest, readManifest } from "./package-manifest.ts";

export type TestReport = "tap" | "vitest" | "jest" | "mocha" | "pytest" | "go" | "cargo" | "plain";

/** How a project's tests are started, and how their output is read. */
export interface TestRunner {
  name: string;
  command: string[];
  report: TestReport;
  /** Why this one, as a sentence. */
  because: string;
}

/** The test runner a folder of the tree asks for by its files; undefined when it has none we know. */
export async function findTestRunner(workspace: Workspace, folder: string): Promise<TestRunner | undefined> {
  const at = (name: string) => (folder === "" ? name : `${folder}/${name}`);
  const has = (name: string) => workspace.exists(at(name));
  const manifest = await readManifest(workspace, at("package.json"));
  const ofNode = manifest && nodeRunner(manifest);
  if (ofNode) return ofNode;
  if (await has("go.mod")) {
    return { name: "go test", command: ["go", "test", "-json", "./..."], report: "go", because: "There is a go.mod." };
  }
  if (await has("Cargo.toml")) {
    const command = ["cargo", "test", "--offline", "--no-fail-fast"];
    return { name: "cargo test", command, report: "cargo", because: "There is a Cargo.toml." };
  }
  return pythonRunner(workspace, folder, has);
}

function nodeRunner({ scripts, dependencies }: PackageManifest): TestRunner | undefined {
  const script = scripts.test ?? "";
  const isPlaceholder = /no test specified/.test(script);
  const because =
    script && !isPlaceholder ? `The test script of package.json is \`${script}\`.` : "package.json depends on it.";
  const uses = (name: string) =>
    new RegExp(`(^|[\\s/])${name}(\\s|$)`).test(script) || ((!script || isPlaceholder) && dependencies.has(name));

  if (uses("vitest"))
    return {
      name: "vitest",
      command: ["npx", "--no-install", "vitest", "run", "--reporter=json"],
      report: "vitest",
      because,
    };
  if (uses("jest"))
    return { name: "jest", command: ["npx", "--no-install", "jest", "--json", "--ci"], report: "jest", because };
  if (uses("mocha"))
    return { name: "mocha", command: ["npx", "--no-install", "mocha", "--reporter", "json"], report: "mocha", because };
  if (/(^|\s)node\s.*--test(\s|$)/.test(script)) {
    // Its own options (imports, globs, environment) are part of the script, so the script runs and only the reporter is ours.
    return {
      name: "node --test",
      command: ["npm", "test", "--silent", "--", "--test-reporter=tap"],
      report: "tap",
      because,
    };
  }
  if (script && !isPlaceholder)
    return { name: "npm test", command: ["npm", "test", "--silent", "--"], report: "plain", because };
  return undefined;
}

async function pythonRunner(
  workspace: Workspace,
  folder: string,
  has: (name: string) => Promise<boolean>,
): Promise<TestRunner | undefined> {
  const command = ["python3", "-m", "pytest", "-rA", "-q", "--color=no", "-p", "no:cacheprovider"];
  for (const name of [
    "pytest.ini",
    "conftest.py",
    "tox.ini",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
  ]) {
    if (await has(name)) return { name: "pytest", command, report: "pytest", because: `There is a ${name}.` };
  }
  const prefix = folder === "" ? "" : `${folder}/`;
  const test = (await workspace.paths()).find(
    (path) => path.startsWith(prefix) && /(^|\/)(test_[^/]*|[^/]*_test)\.py$/.test(path),
  );
  return test ? { name: "pytest", command, report: "pytest", because: `There is ${test}.` } : undefined;
}
