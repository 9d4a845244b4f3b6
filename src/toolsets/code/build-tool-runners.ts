import { posix } from "node:path";
import type { Workspace } from "#domain/workspace.ts";
import { folderOf } from "#sandbox/paths.ts";

/** Returns what selects named tests by their names, and leaves arguments with options as they are. */
const unlessOptions = (select: (names: readonly string[]) => string[]) => (args: readonly string[]) =>
  args.some((arg) => arg.startsWith("-")) ? [...args] : select(args);

/** How the tests of a project are started: a part of `TestRunner`. */
interface BuildToolRunner {
  name: string;
  command: string[];
  commandForNamed?: string[];
  select(args: readonly string[]): string[];
  limitTo?(path: string): string[];
  report: "go" | "cargo" | "maven" | "gradle" | "ctest";
  reason: string;
}

/** Options of `go test` without a value in the next word. */
const goSwitch = /^--?(?:[anvx]|race|short|failfast|cover|benchmem|fullpath|json|msan|asan|trimpath|work)$/;

/** Names the packages first, as `go test` expects: a file stands for its package, and `TestName` for the option `-run`. */
function selectGoTests(args: readonly string[]): string[] {
  const packages = new Set<string>();
  const tests: string[] = [];
  const options: string[] = [];
  for (const [at, arg] of args.entries()) {
    const before = args[at - 1] ?? "";
    if (arg.endsWith(".go")) packages.add(`./${posix.dirname(arg)}`);
    else if (arg.startsWith("-")) options.push(arg);
    else if (/^-[^=]+$/.test(before) && !goSwitch.test(before) && !/^\.{1,2}(?:\/|$)/.test(arg)) options.push(arg);
    else if (/^(?:Test|Example|Fuzz)/.test(arg)) tests.push(arg.replace(/\/.*/, ""));
    else packages.add(/^\.{1,2}(?:\/|$)/.test(arg) ? arg : `./${arg}`);
  }
  const run = tests.length > 0 ? ["-run", `^(${tests.join("|")})$`] : [];
  return [...(packages.size > 0 ? packages : ["./..."]), ...run, ...options];
}

export const goRunner: BuildToolRunner = {
  name: "go test",
  command: ["go", "test", "-json", "./..."],
  commandForNamed: ["go", "test", "-json"],
  select: selectGoTests,
  limitTo: (path) => (path.endsWith(".go") ? selectGoTests([path]) : [`./${path}/...`]),
  report: "go",
  reason: "There is a go.mod.",
};

/** A file in `tests` is a target of its own, and one in `src` a module. Of names, cargo takes one, and the tests take several. */
function selectCargoTests(args: readonly string[]): string[] {
  const targets: string[] = [];
  const others: string[] = [];
  for (const arg of args) {
    const target = /(?:^|\/)tests\/([^/]+?)(?:\.rs|\/main\.rs)$/.exec(arg)?.[1];
    const module = /(?:^|\/)src\/(.+?)(?:\/mod)?\.rs$/.exec(arg)?.[1];
    if (target !== undefined) targets.push("--test", target);
    else if (module === "lib") targets.push("--lib");
    else if (module === "main") targets.push("--bins");
    else others.push(module === undefined ? arg : `${module.replaceAll("/", "::")}::`);
  }
  const areSeveralNames = others.length > 1 && !others.some((arg) => arg.startsWith("-"));
  return [...targets, ...(areSeveralNames ? ["--"] : []), ...others];
}

export const cargoRunner: BuildToolRunner = {
  name: "cargo test",
  command: ["cargo", "test", "--offline", "--no-fail-fast"],
  select: selectCargoTests,
  report: "cargo",
  reason: "There is a Cargo.toml.",
};

/** Returns the runner of a Maven project. A module is tested from the project that lists it, with the modules that it needs. */
export async function mavenRunner(workspace: Workspace, folder: string): Promise<BuildToolRunner | undefined> {
  if (!(await workspace.exists(posix.join(folder, "pom.xml")))) return undefined;
  let root = folder;
  for (let at = folder; at !== ""; ) {
    at = folderOf(at);
    const pom = posix.join(at, "pom.xml");
    const modules = (await workspace.exists(pom)) ? modulesOf(await workspace.read(pom)) : [];
    if (modules.some((module) => posix.join(at, module) === root)) root = at;
  }
  const parent = posix.join(posix.relative(folder, root), "pom.xml");
  const module = root === folder ? [] : ["--file", parent, "--projects", posix.relative(root, folder), "--also-make"];
  return {
    name: "mvn test",
    command: ["mvn", "--batch-mode", "--offline", "--fail-at-end", ...module, "test"],
    // Without the second option, a module that has no such test fails.
    select: unlessOptions((names) => [
      `-Dtest=${names.map(testClass).join(",")}`,
      "-Dsurefire.failIfNoSpecifiedTests=false",
    ]),
    report: "maven",
    reason: "There is a pom.xml.",
  };
}

/** Returns the paths of the modules that a pom.xml lists. */
function modulesOf(pom: string): string[] {
  const [first = "", ...rest] = pom.split("<!--");
  const text = first + rest.map((part) => part.split("-->").slice(1).join("-->")).join("");
  return [...text.matchAll(/<module>([^<]+)<\/module>/g)].map(([, path = ""]) =>
    path.trim().replace(/(?:\/pom\.xml|\/)$/, ""),
  );
}

/** Returns the runner of a Gradle project. Gradle finds the settings in a folder above by itself. */
export async function gradleRunner(workspace: Workspace, folder: string): Promise<BuildToolRunner | undefined> {
  const names = ["build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle"];
  for (const name of names) {
    if (!(await workspace.exists(posix.join(folder, name)))) continue;
    return {
      name: "gradle test",
      command: ["gradle", "--offline", "--no-daemon", "--console=plain", "--continue", "test"],
      select: unlessOptions((tests) => tests.flatMap((test) => ["--tests", testClass(test)])),
      report: "gradle",
      reason: `There is a ${name}.`,
    };
  }
  return undefined;
}

/** Returns the name of the test class in a file; other names as they are. */
function testClass(name: string): string {
  return /([^/]+)\.(?:java|kt|groovy|scala)$/.exec(name)?.[1] ?? name;
}

/** Builds outside of the tree. The output of the build is shown only if it fails. */
const buildAndTest = [
  "build=$(mktemp -d)",
  '{ cmake -S . -B "$build" && cmake --build "$build" --parallel 2; } > "$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }',
  'cd "$build" && exec ctest --output-on-failure "$@"',
].join("\n");

/** Returns the runner of a CMake project that has tests. */
export async function cmakeRunner(workspace: Workspace, folder: string): Promise<BuildToolRunner | undefined> {
  const path = posix.join(folder, "CMakeLists.txt");
  const text = (await workspace.exists(path)) ? await workspace.read(path) : "";
  if (!/^[ \t]*project\s*\(/im.test(text) || !/^[ \t]*(?:enable_testing|add_test|include\s*\(\s*CTest)\b/im.test(text))
    return undefined;
  return {
    name: "ctest",
    command: ["ctest"],
    select: unlessOptions((names) => ["--tests-regex", names.map((name) => posix.parse(name).name).join("|")]),
    report: "ctest",
    reason: "The CMakeLists.txt of the project has tests.",
  };
}

/** Starts the version that the project's wrapper has downloaded, if it is there, and otherwise the installed one. */
function startWrapper({ wrapper, downloads, name }: Record<"wrapper" | "downloads" | "name", string>): string[] {
  return [
    "folder=$PWD",
    `while [ "$folder" != "" ] && [ ! -f "$folder/${wrapper}" ]; do folder=\${folder%/*}; done`,
    `[ "$folder" != "" ] && [ -d "$HOME/${downloads}" ] && exec sh "$folder/${wrapper}" "$@"`,
    `${name} "$@"`,
  ];
}

/** By default, Gradle does not report tests that pass, and does not run them again. */
const gradleSettings = `allprojects {
  tasks.withType(Test).configureEach {
    testLogging { events 'passed', 'skipped', 'failed'; exceptionFormat 'full'; showStandardStreams = false }
    outputs.upToDateWhen { false }
  }
}`;

/** Scripts that start a program in the way that a project prepares. */
export const buildToolScripts: Readonly<Record<string, string>> = {
  ctest: buildAndTest,
  mvn: startWrapper({ wrapper: "mvnw", downloads: ".m2/wrapper/dists", name: "mvn" }).join("\n"),
  gradle: [
    `settings=$(mktemp --suffix=.gradle); printf '%s' "${gradleSettings}" > "$settings"`,
    'set -- --init-script "$settings" "$@"',
    ...startWrapper({ wrapper: "gradlew", downloads: ".gradle/wrapper/dists", name: "gradle" }),
  ].join("\n"),
};
