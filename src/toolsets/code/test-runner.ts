import { posix } from "node:path";
import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { folderOf } from "#sandbox/paths.ts";
import { parseJsonObject } from "#text/json-values.ts";
import {
  buildToolScripts,
  cargoRunner,
  cmakeRunner,
  goRunner,
  gradleRunner,
  mavenRunner,
} from "./build-tool-runners.ts";

export type TestReport =
  | "tap"
  | "vitest"
  | "jest"
  | "mocha"
  | "pytest"
  | "unittest"
  | "go"
  | "cargo"
  | "rspec"
  | "minitest"
  | "maven"
  | "gradle"
  | "ctest"
  | "plain";

/** A project's test command and the format of its output. */
export interface TestRunner {
  name: string;
  command: string[];
  /** The command for running named tests or those of a folder, if it differs. */
  commandForNamed?: string[];
  /** The command for running named files, if the usual one would also run those that the script itself names. */
  commandForFiles?: string[];
  /** Commands for the other tests of the same script, such as those with other settings. */
  furtherCommands?: string[][];
  /** The options with which it runs only the tests in the folders that follow; undefined if it cannot. */
  folderOptions?: string[];
  /** Returns the options that limit it to a folder or file, for a runner that does not take paths. */
  limitTo?(path: string): string[];
  /** Returns the options for the arguments of a call, for a runner that does not take names of tests and files as they are. */
  select?(args: readonly string[]): string[];
  /** The folder to start it in, if it is not the one that was asked for. */
  folder?: string;
  env?: Record<string, string>;
  report: TestReport;
  /** A sentence that explains why this runner was chosen. */
  reason: string;
  /** The script of a monorepo's root that starts the tests of all its packages. */
  scriptOfAllPackages?: string;
}

/** Returns the test runner indicated by a folder's files; undefined if there is no known one. */
export async function findTestRunner(workspace: Workspace, folder: string): Promise<TestRunner | undefined> {
  const at = (name: string) => (folder === "" ? name : `${folder}/${name}`);
  const has = (name: string) => workspace.exists(at(name));
  const nxProject = (await has("project.json")) ? await workspace.read(at("project.json")) : undefined;
  const manifest = (await readManifest(workspace, at("package.json"))) ?? (nxProject && noManifest);
  const ofNode = manifest && nodeRunner(manifest, await runnersWithSettings(workspace, at));
  if (ofNode) return ofNode;
  const ofNx = nxProject && nxRunner(nxProject);
  if (ofNx) return ofNx;
  if (await has("go.mod")) return goRunner;
  if (await has("Cargo.toml")) return cargoRunner;
  const ofJava = (await mavenRunner(workspace, folder)) ?? (await gradleRunner(workspace, folder));
  if (ofJava) return ofJava;
  const ofCmake = await cmakeRunner(workspace, folder);
  const ofPython = await pythonRunner(workspace, folder, { byTestFiles: ofCmake === undefined });
  const ofProject = ofPython ?? (await rubyRunner(workspace, at)) ?? ofCmake;
  if (ofProject) return ofProject;
  const makefile = (await has("Makefile")) ? await workspace.read(at("Makefile")) : "";
  if (!hasTestTarget(makefile)) return undefined;
  return {
    name: "make test",
    command: ["make", "test"],
    report: "plain",
    reason: "The Makefile has a target `test`.",
  };
}

export function hasTestTarget(makefile: string): boolean {
  return /^test[ \t]*:(?!=)/m.test(makefile);
}

async function rubyRunner(workspace: Workspace, at: (name: string) => string): Promise<TestRunner | undefined> {
  const read = async (name: string) => ((await workspace.exists(at(name))) ? workspace.read(at(name)) : undefined);
  const [gemfile, rakefile = "", settings] = await Promise.all(["Gemfile", "Rakefile", ".rspec"].map(read));
  const bundled = gemfile === undefined ? [] : ["bundle", "exec"];
  const hasTestTask = /TestTask|\btask\s*\(?:?["']?test\b/.test(rakefile);
  const namesRspec = /["']rspec(-rails)?["']/.test(gemfile ?? "") || /\bRSpec::|rspec\/core/.test(rakefile);
  // Tests of minitest may use rspec's mocks.
  const usesRspec = namesRspec && (!hasTestTask || (await workspace.exists(at("spec"))));
  if (settings !== undefined || usesRspec) {
    return {
      name: "rspec",
      command: [...bundled, "rspec", "--no-color", "--format", "json"],
      report: "rspec",
      folderOptions: [],
      reason: settings === undefined ? "The Gemfile or Rakefile names rspec." : "There is a .rspec.",
    };
  }
  if (!hasTestTask) return undefined;
  return {
    name: "rake test",
    command: [...bundled, "rake", "test"],
    commandForNamed: [...bundled, "ruby", "-Ilib", "-Itest", "-Ispec"],
    report: "minitest",
    reason: "The Rakefile has a task `test`.",
  };
}

/** Runs the Python of the nearest virtual environment, or the given command if there is none. */
const projectPython = [
  "folder=$PWD",
  'while [ "$folder" != "" ]; do',
  '  for name in .venv venv; do python="$folder/$name/bin/python"; [ -x "$python" ] && exec "$python" "$@"; done',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
  "  folder=${folder%/*}",
  "done",
  '[ -f uv.lock ] && command -v uv > /dev/null && exec uv run --no-sync --offline python "$@"',
  'exec python3 "$@"',
].join("\n");

const startScripts: Readonly<Record<string, string>> = { python3: projectPython, ...buildToolScripts };

/** Returns the command to start. It uses the project's own Python, Maven or Gradle. */
export function withProjectTools(command: readonly string[]): string[] {
  const [program = "", ...args] = command;
  const script = startScripts[program];
  return script === undefined ? [...command] : ["bash", "-c", script, "bash", ...args];
}

const nodeTest = /(^|\s)node\s.*--test(\s|$)/;
/** A program by its name, or by its file below `bin`, as in `node node_modules/jest/bin/jest.js`. */
const namesProgram = (text: string, name: string) =>
  new RegExp(`(?:^|[\\s/])${name}(?:\\s|$)|/bin/_?${name}(?:\\.[cm]?js)?(?:\\s|$)`).test(text);
const namesRunner = (text: string) =>
  ["vitest", "jest", "mocha", "ava", "tap", "borp"].some((name) => namesProgram(text, name)) || nodeTest.test(text);

/** Scripts that start the tests of packages whose `test` does something else or does not exist, as with Nx and Turborepo. */
const otherTestScripts = ["test:unit", "test:lib", "test:run", "test:node", "test:js", "unit", "vitest", "jest"];

/** Returns the script that starts the tests: `test`, unless only another script names the runner. */
function testScript(scripts: Record<string, string>): { name: string; script: string } {
  const seen = new Set(["test"]);
  for (const name of seen) {
    const script = scripts[name] ?? "";
    if (namesRunner(script)) return { name, script };
    for (const started of startedScripts(script, Object.keys(scripts))) seen.add(started);
  }
  const other = otherTestScripts.find((name) => namesRunner(scripts[name] ?? ""));
  const name = other ?? "test";
  return { name, script: scripts[name] ?? "" };
}

/** Returns the scripts that a script starts. npm-run-all and pnpm can name several by their start. */
function startedScripts(script: string, names: readonly string[]): string[] {
  const one = [...script.matchAll(/\b(?:npm|pnpm|yarn)(?: run)?(?: -\S+)* ["']?(\/\^[\w:-]+\.[*+]|[\w:.-]+)/g)];
  const several = [...script.matchAll(/\b(?:run-s|run-p|npm-run-all)((?: [\w:.*-]+)+)/g)];
  const words = [...one, ...several].flatMap(([, found = ""]) => found.trim().split(" "));
  return words.flatMap((word) => {
    const [, start] = /^(?:\/\^)?([\w:.-]*?)\.?[*+]+$/.exec(word) ?? [];
    return start === undefined ? [word] : names.filter((name) => name.startsWith(start));
  });
}

/** Runners that print TAP, each with the option that selects it. */
const tapRunners = [
  ["ava", "--tap"],
  ["borp", "--reporter=tap"],
  ["tap", "--reporter=tap"],
] as const;

const isCheck =
  /^(?:(?:npm|pnpm|yarn)(?: run)? [\w:.-]*(?:lint|format|prettier|style|check|types)[\w:.-]*|(?:npx )?(?:eslint|oxlint|stylelint|prettier|biome|standard|xo|tsc --noEmit)(?: [^|;]*)?)$/;

/** The options of jest, vitest, ava, go's golden files and pytest's plugins that ask for new snapshots. */
export const updatesSnapshots = /^--?(?:u|update[\w-]*|snapshot-update)(?:=.*)?$/;

/** A word that means the same without a shell: plain, or in quotes without anything that a shell replaces. */
const shellWord = /[\w@./:=,+-]+|'[^']*'|"[^"$`\\]*"/;
/** The same, or a pattern that a shell replaces by names of files. */
const fileWord = /[\w@./:=,+*?{}-]+|'[^']*'|"[^"$`\\]*"/;

/**
 * Returns the words of a script's commands if they have to be started without the script, which is possible where they need
 * no shell: several, each with a report of its own, those after checks such as linters, and those that ask for new snapshots,
 * so that no test would fail.
 */
function commandsAfterChecks(script: string): string[][] {
  const commands = plainCommands(script);
  const hasReason = script.includes("&&") || commands.flat().some((word) => updatesSnapshots.test(word));
  return hasReason ? commands : [];
}

/** Returns the words of a script's commands after checks; none if one of them needs a shell. */
function plainCommands(script: string, word = shellWord): string[][] {
  const plainCommand = new RegExp(`^(?:(?:${word.source})(?:\\s+|$))+$`);
  const commands = script.split("&&").map((command) => command.trim());
  const first = commands.findIndex((command) => !isCheck.test(command));
  const own = first === -1 ? [] : commands.slice(first);
  if (!own.every((command) => plainCommand.test(command))) return [];
  return own.map((command) =>
    (command.match(new RegExp(word, "g")) ?? []).map((word) => word.replace(/^(['"])(.*)\1$/, "$2")),
  );
}

/** Programs that measure coverage or start others, with their options, and variables. */
const startsRunner = /^(?:cross-env|c8|nyc|npx|pnpm|yarn|exec|--?[\w-]+(?:=.*)?|\w+=.*)$/;
/** Options of node, mocha and borp with their value in the next word. */
const takesValue =
  /^(?:-[rRutsgfjO]|--(?:require|import|loader|experimental-loader|env-file|conditions|config|file|package|reporter|reporter-options?|ui|timeout|slow|retries|jobs|grep|fgrep|ignore|exclude|extension|pattern|concurrency|test-[\w-]+))$/;

/** Returns the command of a script that starts this runner, without the tests that it names; undefined if it needs a shell. */
function withoutOwnFiles(script: string, runner: string): string[] | undefined {
  const [words = []] = plainCommands(script, fileWord);
  const at = words.indexOf(runner);
  if (at === -1 || !words.slice(0, at).every((word) => startsRunner.test(word))) return undefined;
  const variables = words.slice(0, at).filter((word) => /^\w+=/.test(word));
  const options = words
    .slice(at + 1)
    .filter((word, index) => word.startsWith("-") || takesValue.test(words[at + index] ?? ""))
    .filter((word) => !updatesSnapshots.test(word));
  if (options.some((option) => /[*?{]/.test(option))) return undefined;
  // The files in borp's settings would be added as well.
  if (runner === "borp") variables.push("BORP_CONF_FILE=none");
  const program = runner === "node" ? ["node"] : ["npx", "--no-install", runner];
  return [...(variables.length > 0 ? ["env", ...variables] : []), ...program, ...options];
}

/** Returns the commands of a script that start Node's test runner, if other commands are before or after them. */
function nodeTestsAfterChecks(script: string): string[][] {
  const commands = commandsAfterChecks(script);
  const isNodeTest = (words: readonly string[] | undefined) => words?.[0] === "node" && nodeTest.test(words.join(" "));
  if (!isNodeTest(commands[0])) return [];
  const hasReporter = script.includes("--test-reporter");
  return commands
    .filter(isNodeTest)
    .map(([node = "", ...words]) => [node, ...(hasReporter ? [] : ["--test-reporter=tap"]), ...words]);
}

/** Returns the runners whose settings a folder has. Those of vitest may be in the settings of Vite. */
async function runnersWithSettings(workspace: Workspace, at: (name: string) => string): Promise<Set<string>> {
  const found = new Set<string>();
  for (const ending of ["ts", "mts", "js", "mjs", "cjs"]) {
    const ofVite = at(`vite.config.${ending}`);
    for (const name of ["vitest", "jest"]) if (await workspace.exists(at(`${name}.config.${ending}`))) found.add(name);
    if ((await workspace.exists(ofVite)) && /\btest\s*:/.test(await workspace.read(ofVite))) found.add("vitest");
  }
  return found;
}

/** Starts no background process and asks no question, for which a sandbox has no use. */
const monorepoEnvironment = { NX_DAEMON: "false", NX_TUI: "false", TURBO_TELEMETRY_DISABLED: "1", CI: "1" };

/** Programs and options that start the scripts of a monorepo's packages. */
const startsPackages =
  /(?:^|[\s&|;])(?:nx|turbo|lerna|rush|wsrun|ultra)\s|\bpnpm (?:\S+ )*(?:-r|--recursive|--filter)\b|\byarn workspaces\b|\s--workspaces\b/;

const NxProject = z.object({ name: z.string(), targets: z.object({ test: z.unknown() }) });

/** Returns the command that starts the `test` target of an Nx project. */
function nxRunner(projectJson: string): TestRunner | undefined {
  const project = NxProject.safeParse(parseJsonObject(projectJson)).data;
  if (project?.targets.test === undefined) return undefined;
  return {
    name: "nx test",
    command: ["npx", "--no-install", "nx", "run", `${project.name}:test`],
    env: monorepoEnvironment,
    report: "plain",
    reason: "project.json has a target `test`.",
  };
}

type Commands = Pick<TestRunner, "command" | "furtherCommands">;

function nodeRunner(
  { scripts, dependencies }: PackageManifest,
  withSettings: ReadonlySet<string>,
): TestRunner | undefined {
  const { name: scriptName, script } = testScript(scripts);
  const isPlaceholder = /no test specified/.test(script);
  const hasScript = script !== "" && !isPlaceholder;
  const because = hasScript
    ? `The ${scriptName} script of package.json is \`${script}\`.`
    : "package.json depends on it, or its settings are there.";
  const last = script.split(/&&|\|\||[;|]/).at(-1) ?? "";
  const uses = (name: string) =>
    namesProgram(script, name) || (!hasScript && (dependencies.has(name) || withSettings.has(name)));
  const [before, after] = [scripts[`pre${scriptName}`], scripts[`post${scriptName}`]];
  const isBuilt = before?.split("&&").every((command) => isCheck.test(command.trim())) === false;
  // Linters before the tests, and what is made after them.
  const alone = !isBuilt && (before ?? after) !== undefined ? ["--ignore-scripts"] : [];
  const start = scriptName === "test" ? ["npm", "test", "--silent"] : ["npm", "run", "--silent", scriptName];
  const npmTest = [...start, ...alone, "--"];

  // The script's own options (files, imports, environment) matter, so the script itself runs and only the reporter is added.
  function through(name: string, { own = [], options }: { own?: string[]; options: string[] }): Commands {
    const isLast = namesProgram(last, name) && !/\s--watch(All)?(\s|$)/.test(last);
    if (!isLast)
      return { command: ["npx", "--no-install", name, ...own, ...options.filter((option) => option !== "--run")] };
    const commands = commandsAfterChecks(script).map((words) => withoutScript(words, name, options));
    const [command, ...furtherCommands] = commands.every((words) => words !== undefined) ? commands : [];
    return command ? { command, furtherCommands } : { command: [...npmTest, ...options] };
  }

  // A linter's complaint about a line in progress would keep the tests from running.
  function withoutScript(words: readonly string[], name: string, options: readonly string[]): string[] | undefined {
    const at = words.indexOf(name);
    const isRunner = at === 0 || (at > 0 && scripts[name] === undefined);
    if (!isRunner || !words.slice(0, at).every((word) => /^(npx|pnpm|yarn|exec)$/.test(word))) return undefined;
    const own = words.slice(at).filter((word) => !updatesSnapshots.test(word));
    return ["npx", "--no-install", ...own, ...options.filter((option) => !own.includes(option))];
  }

  if (uses("vitest")) {
    const commands = through("vitest", { own: ["run"], options: ["--run", "--reporter=json"] });
    return { name: "vitest", ...commands, report: "vitest", reason: because, folderOptions: ["--passWithNoTests"] };
  }
  if (uses("jest")) {
    const commands = through("jest", { options: ["--json", "--ci", "--updateSnapshot=false"] });
    return { name: "jest", ...commands, report: "jest", reason: because, folderOptions: ["--passWithNoTests"] };
  }
  function forFiles(runner: string, options: string[]): Pick<TestRunner, "commandForFiles"> {
    const command = isBuilt ? undefined : withoutOwnFiles(script, runner);
    return command ? { commandForFiles: [...command, ...options] } : {};
  }

  if (uses("mocha")) {
    const options = ["--reporter", "json"];
    const commands = { ...through("mocha", { options }), ...forFiles("mocha", options) };
    return { name: "mocha", ...commands, report: "mocha", reason: because };
  }
  for (const [name, option] of tapRunners) {
    if (!uses(name) || nodeTest.test(script)) continue;
    const ofFiles = name === "borp" ? forFiles("borp", [option]) : {};
    return { name, ...through(name, { options: [option] }), ...ofFiles, report: "tap", reason: because };
  }
  if (nodeTest.test(script)) {
    const [first, ...furtherCommands] = isBuilt ? [] : nodeTestsAfterChecks(script);
    // A second reporter would require destinations for both, and appended to another command, it would become that
    // command's option.
    const isOurs = nodeTest.test(last) && !script.includes("--test-reporter");
    const command = first ?? [...npmTest, ...(isOurs ? ["--test-reporter=tap"] : [])];
    const ofFiles = forFiles("node", script.includes("--test-reporter") ? [] : ["--test-reporter=tap"]);
    return { name: "node --test", command, furtherCommands, ...ofFiles, report: "tap", reason: because };
  }
  if (!hasScript) return undefined;
  const all = startsPackages.test(script) ? { scriptOfAllPackages: script } : {};
  return { name: "npm test", command: npmTest, env: monorepoEnvironment, report: "plain", reason: because, ...all };
}

// A file that cannot be imported would otherwise keep all tests from running.
const pytestOptions = ["-rfE", "-q", "--color=no", "-p", "no:cacheprovider", "--continue-on-collection-errors"];
const pytestFiles = ["pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py"];
const pythonFiles = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "requirements-dev.txt"];
const maxTestFilesRead = 20;

/** Without `byTestFiles`, a project needs settings or a manifest of Python, not only files with tests. */
async function pythonRunner(
  workspace: Workspace,
  folder: string,
  { byTestFiles }: { byTestFiles: boolean },
): Promise<TestRunner | undefined> {
  const prefix = folder === "" ? "" : `${folder}/`;
  const inside = (await workspace.paths())
    .filter((path) => path.startsWith(prefix))
    .map((path) => path.slice(prefix.length));
  const present = new Set(inside);
  const tests = inside.filter((path) => /(^|\/)(test_[^/]*|[^/]*_test)\.py$/.test(path));
  const signs = [...pytestFiles, "tox.ini", ...pythonFiles].filter((name) => present.has(name));
  const sign = signs[0] ?? (byTestFiles ? tests[0] : undefined);
  if (sign === undefined) return undefined;
  // A folder of tests may have a conftest.py without being a project.
  const isProject = signs.some((name) => name !== "conftest.py");
  const above = isProject ? undefined : await pythonRunnerAbove(workspace, folder);
  if (above) return above;

  // Makes a package in `src` importable without installing it.
  const imports = inside.some((path) => /^src\/.*\.py$/.test(path)) ? { env: { PYTHONPATH: "src" } } : {};
  const pytest: TestRunner = {
    name: "pytest",
    command: ["python3", "-m", "pytest", ...pytestOptions],
    report: "pytest",
    reason: `There is a ${sign}.`,
    folderOptions: [],
    ...imports,
  };
  const tox = present.has("tox.ini") ? await workspace.read(`${prefix}tox.ini`) : "";
  if (pytestFiles.some((name) => present.has(name)) || /\bpytest\b/.test(tox)) return pytest;
  const read = [...pythonFiles.filter((name) => present.has(name)), ...tests.slice(0, maxTestFilesRead)];
  const texts = await Promise.all(read.map((path) => workspace.read(prefix + path)));
  const needsPytest = texts.some((text) => /\bpytest\b|^(async )?def test_/m.test(text));
  const isPlain = texts.some((text) => /^[ \t]*(import|from) unittest\b/m.test(text));
  if (needsPytest || !isPlain) return pytest;
  return { ...unittestRunner(present, tests), ...imports };
}

/** Returns the runner of the nearest Python project above a folder, whose modules the tests import from its root. */
async function pythonRunnerAbove(workspace: Workspace, folder: string): Promise<TestRunner | undefined> {
  for (let at = folder; at !== ""; ) {
    at = folderOf(at);
    const runner = await pythonRunner(workspace, at, { byTestFiles: false });
    if (runner) return { ...runner, folder: at };
  }
  return undefined;
}

function unittestRunner(present: ReadonlySet<string>, tests: readonly string[]): TestRunner {
  const [first = ""] = tests;
  const top = first.includes("/") ? first.slice(0, first.indexOf("/")) : "";
  // unittest only searches folders that are packages, apart from the start folder.
  const start = top !== "" && !present.has(`${top}/__init__.py`) ? ["-s", top] : [];
  const pattern = tests.every((path) => path.endsWith("_test.py")) ? ["-p", "*_test.py"] : [];
  return {
    name: "unittest",
    command: ["python3", "-m", "unittest", "discover", ...start, ...pattern],
    commandForNamed: ["python3", "-m", "unittest"],
    report: "unittest",
    reason: `${first} uses unittest.`,
    limitTo: (path) => {
      const start = present.has(path) ? folderOf(path) : path;
      const ofFile = present.has(path) ? ["-p", posix.basename(path)] : [];
      return ["discover", "-s", start || ".", "-t", importRoot(present, start) || ".", ...ofFile];
    },
  };
}

/** Returns the nearest folder that is not a package: that from which its modules, and those of packages in it, are imported. */
function importRoot(present: ReadonlySet<string>, folder: string): string {
  let root = folder;
  while (root !== "" && present.has(`${root}/__init__.py`)) root = folderOf(root);
  return root;
}

const names = z.record(z.string(), z.unknown()).catch({}).default({});
const Manifest = z.object({
  scripts: z.record(z.string(), z.string()).catch({}).default({}),
  dependencies: names,
  devDependencies: names,
});

export interface PackageManifest {
  scripts: Record<string, string>;
  /** The names of all dependencies. */
  dependencies: ReadonlySet<string>;
}

const noManifest: PackageManifest = { scripts: {}, dependencies: new Set() };

/** Reads a package.json; undefined if there is none. Throws a ToolError if it is not JSON. */
export async function readManifest(workspace: Workspace, path: string): Promise<PackageManifest | undefined> {
  if (!(await workspace.exists(path))) return undefined;
  const text = await workspace.read(path);
  try {
    const { scripts, dependencies, devDependencies } = Manifest.parse(JSON.parse(text));
    return { scripts, dependencies: new Set([...Object.keys(dependencies), ...Object.keys(devDependencies)]) };
  } catch (error) {
    throw new ToolError(`${path} is not valid JSON.`, {
      code: "EXECUTION_ERROR",
      cause: error,
    });
  }
}
