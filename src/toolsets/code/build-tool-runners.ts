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

/** By default, Gradle does not report tests that pass, and does not run them again. */
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
