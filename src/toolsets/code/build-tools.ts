import { posix } from "node:path";
import type { Workspace } from "#domain/workspace.ts";
import { folderOf } from "#sandbox/paths.ts";

/** How the tests of a project are started: a part of `TestRunner`. */
interface BuildToolRunner {
  name: string;
  command: string[];
  select(names: readonly string[]): string[];
  report: "maven" | "gradle" | "ctest";
  reason: string;
}

/** The results of tests, with everything that was printed about each failed one. */
interface PrintedResults {
  passed: number;
  failed: number;
  skipped: number;
  failures: { name: string; error: string }[];
}

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
    select: (names) => [`-Dtest=${names.map(testClass).join(",")}`, "-Dsurefire.failIfNoSpecifiedTests=false"],
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
      select: (tests) => tests.flatMap((test) => ["--tests", testClass(test)]),
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
    command: ["bash", "-c", buildAndTest, "ctest"],
    select: (names) => ["--tests-regex", names.map((name) => posix.parse(name).name).join("|")],
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

/** Gradle says nothing about tests that pass unless it is told to, and does not run again what passed before. */
const gradleSettings = `allprojects {
  tasks.withType(Test).configureEach {
    testLogging { events 'passed', 'skipped', 'failed'; exceptionFormat 'full'; showStandardStreams = false }
    outputs.upToDateWhen { false }
  }
}`;

/** Scripts that start a program in the way that a project prepares. */
export const buildToolScripts: Readonly<Record<string, string>> = {
  mvn: startWrapper({ wrapper: "mvnw", downloads: ".m2/wrapper/dists", name: "mvn" }).join("\n"),
  gradle: [
    `settings=$(mktemp --suffix=.gradle); printf '%s' "${gradleSettings}" > "$settings"`,
    'set -- --init-script "$settings" "$@"',
    ...startWrapper({ wrapper: "gradlew", downloads: ".gradle/wrapper/dists", name: "gradle" }),
  ].join("\n"),
};

/** Reads what Surefire prints: totals, and each failed test with its stack. */
export function readMaven(text: string): PrintedResults | undefined {
  const lines = text.split("\n").map((line) => line.replace(/^\[(?:INFO|ERROR|WARNING)\] ?/, ""));
  const counts = /^Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)(?:, (Time elapsed:).*)?$/;
  const all = lines.map((line) => counts.exec(line)).filter((match) => match !== null);
  // Only the totals of a class have a duration. Those of a module are missing if the run was stopped.
  const ofModules = all.filter((match) => match[5] === undefined);
  const counted = ofModules.length > 0 ? ofModules : all;
  if (counted.length === 0) return undefined;
  const sum = (group: number) => counted.reduce((total, match) => total + Number(match[group]), 0);
  const [failed, skipped] = [sum(2) + sum(3), sum(4)];
  const failures = lines.flatMap((line, at) => {
    const [, title] = /^(?!Tests run:)(\S.* )Time elapsed: [\d.,]+ s(?:ec)? +<<< (?:FAILURE|ERROR)!$/.exec(line) ?? [];
    if (title === undefined) return [];
    const name = title.trimEnd().replace(/ --$/, "").trimEnd();
    return [{ name, error: textUntil(lines, at + 1, (next) => next.trim() === "") }];
  });
  return { passed: Math.max(0, sum(1) - failed - skipped), failed, skipped, failures };
}

/** Reads the tests that Gradle names with their result, each failed one with its stack below it. */
export function readGradle(text: string): PrintedResults | undefined {
  const lines = text.split("\n");
  const results = lines.flatMap((line, at) => {
    const [, name, result] = /^([^>\s].*) (PASSED|FAILED|SKIPPED)$/.exec(line) ?? [];
    return name?.includes(" > ") ? [{ name, result, at }] : [];
  });
  if (results.length === 0) return undefined;
  const count = (wanted: string) => results.filter(({ result }) => result === wanted).length;
  const failures = results
    .filter(({ result }) => result === "FAILED")
    .map(({ name, at }) => ({ name, error: textUntil(lines, at + 1, (next) => /^\S/.test(next)) }));
  return { passed: count("PASSED"), failed: count("FAILED"), skipped: count("SKIPPED"), failures };
}

/** Reads the line of each test that CTest ran, and the output that follows a failed one. */
export function readCtest(text: string): PrintedResults | undefined {
  const lines = text.split("\n");
  const results = lines.flatMap((line, at) => {
    const [, name, result = ""] = /^ *\d+\/\d+ Test +#\d+: (.*?) \.{2,}(.*)$/s.exec(line) ?? [];
    return name === undefined ? [] : [{ name, result: withoutDuration(result), at }];
  });
  if (results.length === 0) {
    return /^No tests were found!!!$/m.test(text) ? { passed: 0, failed: 0, skipped: 0, failures: [] } : undefined;
  }
  const isStart = (line: string) => /^ +Start +\d+: /.test(line);
  const passed = results.filter(({ result }) => result === "Passed").length;
  const failed = results.filter(({ result }) => !/^(?:Passed|\*\*\*Skipped|\*\*\*Not Run \(Disabled\))$/.test(result));
  const failures = failed.map(({ name, result, at }) => {
    const output = textUntil(lines, at + 1, (next) => isStart(next) || /^\d+% tests passed, /.test(next));
    // What keeps a test from being run is printed before its line.
    const before = lines.slice(Math.max(0, at - maxErrorLines), at);
    const start = result.startsWith("***Not Run") ? before.findLastIndex(isStart) : -1;
    const reason = start === -1 ? "" : before[start + 1];
    return { name, error: [result.replace("***", " ").trim(), reason, output].filter(Boolean).join("\n") };
  });
  return { passed, failed: failed.length, skipped: results.length - passed - failed.length, failures };
}

/** Returns the result of a test without the seconds after it: `***Failed    0.01 sec`. */
function withoutDuration(result: string): string {
  const text = result.trim();
  const words = text.split(/ +/);
  return words.at(-1) === "sec" ? words.slice(0, -2).join(" ") : text;
}

/** Returns the lines from `start` until one ends them. */
function textUntil(lines: readonly string[], start: number, isEnd: (line: string) => boolean): string {
  const length = lines.slice(start, start + maxErrorLines).findIndex(isEnd);
  return lines.slice(start, start + (length === -1 ? maxErrorLines : length)).join("\n");
}

const maxErrorLines = 200;
