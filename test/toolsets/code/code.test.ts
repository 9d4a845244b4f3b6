import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { DeploymentPolicy, sandboxTools } from "#config/deployment-policy.ts";
import { createExecutors } from "#executors/create-executors.ts";
import { findTests, testCommand } from "#toolsets/code/find-tests.ts";
import { findFormatters } from "#toolsets/code/format-code.ts";
import { describeMissingProgram, endOfInstallation } from "#toolsets/code/install-command.ts";
import { findTestRunner } from "#toolsets/code/test-runner.ts";
import { codeToolset } from "#toolsets/registry.ts";
import { memoryWorkspace } from "../../support/memory-workspace.ts";
import { startPackageRegistry } from "../../support/package-registry.ts";
import { runSpec, toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

const executors = createExecutors();
const closed = createExecutors({ os: false });
const availability = await executors.availability("os");
afterAll(() => Promise.all([executors.close(), closed.close()]));
let runs = 0;

function world(options: WorldOptions = {}) {
  runs += 1;
  const commit = String(runs).padStart(40, "0");
  return toolsetWorld(codeToolset, { commit, ...options, services: { executors, ...options.services } });
}

const project = {
  "package.json": JSON.stringify({ type: "module", scripts: { test: "node --test" } }),
  "add.js": "export const add = (a, b) => a - b;\n",
  "add.test.js": [
    'import assert from "node:assert";',
    'import { test } from "node:test";',
    'import { add } from "./add.js";',
    'test("adds two numbers", () => assert.strictEqual(add(1, 2), 3));',
    'test("adds nothing", () => assert.strictEqual(add(1, 0), 1));',
  ].join("\n"),
};

test.each([
  [{}, true],
  [{ hasNetwork: true }, true],
  [{ hasNetwork: false }, false],
])(
  "starting code in a remote sandbox needs approval unless its module says that it has no network: %j",
  async (found, asked) => {
    const load = async () => ({ openSandbox: async () => ({}), ...found });
    const remote = createExecutors({ os: false, remote: { module: "some-sandbox", load } });
    onTestFinished(() => remote.close());
    const { asks, preview, sandbox, tool } = await world({
      config: { tier: "remote" },
      services: { executors: remote },
    });
    await sandbox.write("run.sh", "curl https://example.com\n");
    const code = { language: "bash", code: "bash run.sh" };

    expect([await asks("run_code", code), await asks("run_tests", {}), await asks("format_code", {})]).toEqual(
      Array(3).fill(asked),
    );
    expect(await preview("run_code", code)).toBe("bash run.sh\n\nadded: run.sh");
    expect(await preview("run_tests", {})).toContain("added: run.sh");
    // What it has sent before a crash cannot be known.
    expect(tool("run_code").afterCrash).toBe("report");
  },
);

test("nobody is asked to approve code for a remote sandbox that cannot be used", async () => {
  const remote = createExecutors({ os: false, remote: { module: "some-sandbox", load: async () => ({}) } });
  onTestFinished(() => remote.close());
  const { asks, call } = await world({ config: { tier: "remote" }, services: { executors: remote } });
  const code = { language: "bash", code: "ls" };

  expect(await asks("run_code", code)).toBe(false);
  await expect(call("run_code", code)).rejects.toThrow("unavailable: no remote sandbox");
});

if (!availability.available) test.skip(`running code is not tested here: ${availability.reason}`, () => undefined);

describe.skipIf(!availability.available)("in the OS sandbox", () => {
  test("python and bash run with arguments and environment, and their files are kept", async () => {
    const { call, sandbox } = await world({ files: { "data.txt": "7\n" } });

    const python = await call("run_code", {
      language: "python",
      code: "import os, sys\nprint(int(open('data.txt').read()) * int(sys.argv[1]), os.environ['WHO'])\nopen('out.txt', 'w').write('x')",
      args: ["6"],
      env: { WHO: "golem" },
    });
    const bash = await call("run_code", { language: "bash", code: 'echo "$1" >&2; exit 3', args: ["$(id)"] });

    expect(python.llmContent).toMatch(
      /^Exit code 0 after [\d.]+ s\.\nstdout:\n42 golem\nstderr: \(nothing\)\nChanged: out\.txt$/,
    );
    expect(sandbox.text("out.txt")).toBe("x");
    expect(bash).toMatchObject({
      value: { kind: "terminal", exitCode: 3 },
      llmContent: expect.stringContaining("stderr:\n$(id)"),
    });
  });

  test("run_code reaches the worker's hosts only where the policy allows them and a person approves", async () => {
    const registry = await startPackageRegistry();
    const local = createExecutors({ os: { privateRegistries: [registry.host] } });
    onTestFinished(async () => {
      await local.close();
      registry.close();
    });
    const [name] = registry.host.split(":");
    const config = { network: [registry.host] };
    const services = { executors: local, networkHosts: [`${name}:*`] };
    const { call, asks, preview, tool } = await world({ config, services });
    const code = [
      'const { host, hostname, port } = new URL(process.env.https_proxy ?? "http://127.0.0.1:1");',
      'const net = require("node:net").connect(port, hostname, () => net.write("CONNECT " + process.argv[1] + " HTTP/1.1\\r\\n\\r\\n"));',
      'net.on("data", (chunk) => { console.log(String(chunk).split("\\r\\n")[0]); net.destroy(); });',
      'net.on("error", ({ code }) => console.log(code));',
    ].join("\n");
    const input = { language: "bash", code: 'node -e "$1" "$2"', args: [code, registry.host] };

    expect(await asks("run_code", input)).toBe(false);
    expect(await asks("run_code", { ...input, network: true })).toBe(true);
    expect(await preview("run_code", { ...input, network: true })).toContain(registry.host);
    const { afterCrash } = tool("run_code");
    if (typeof afterCrash !== "function") throw new Error("It depends on the call whether it may be repeated.");
    expect([afterCrash(input), afterCrash({ ...input, network: true })]).toEqual(["repeat", "report"]);
    expect((await call("run_code", input)).value).toMatchObject({ stdout: "ECONNREFUSED\n" });
    const connected = await call("run_code", { ...input, network: true });
    expect(connected.value).toMatchObject({ stdout: "HTTP/1.1 200 Connection established\n" });
    const elsewhere = await call("run_code", { ...input, args: [code, "example.com:443"], network: true });
    expect(elsewhere.value).toMatchObject({ stdout: "HTTP/1.1 403 Forbidden\n" });
    const refused = world({ config, services: { ...services, networkHosts: [] } });
    await expect(refused).rejects.toThrow(
      `does not allow run_code to reach ${registry.host}. Allowed (network_hosts): none.`,
    );
  });

  test("approved code with network starts without what earlier calls left, and its request names the changed files", async () => {
    const local = createExecutors({ os: { privateRegistries: ["127.0.0.1:1"] } });
    onTestFinished(() => local.close());
    const services = { executors: local, networkHosts: ["127.0.0.1:1"] };
    const { call, preview } = await world({ config: { network: ["127.0.0.1:1"] }, services });
    const plant = [
      "import os, site",
      "planted = \"print('planted')\\n\"",
      "os.makedirs(site.getusersitepackages(), exist_ok=True)",
      "open(site.getusersitepackages() + '/usercustomize.py', 'w').write(planted)",
      "open(os.path.expanduser('~/.curlrc'), 'w').write('silent\\n')",
      "open('json.py', 'w').write(planted)",
      "os.makedirs('node_modules/tool', exist_ok=True)",
      "open('node_modules/tool/index.js', 'w').write('')",
    ].join("\n");
    await call("run_code", { language: "python", code: plant });
    const list = "import json, os\nprint(json.dumps([os.listdir(os.path.expanduser('~')), sorted(os.listdir('.'))]))";
    const input = { language: "python", code: list };

    expect((await call("run_code", input)).value).toMatchObject({ stdout: expect.stringContaining("planted") });
    const asked = await preview("run_code", { ...input, network: true });
    const approved = await call("run_code", { ...input, network: true });

    expect(asked).toContain("added: json.py");
    expect(approved.value).toMatchObject({ stdout: '[[".config"], ["json.py"]]\n', exitCode: 0 });
  });

  test("tests are red, the file is edited, and they are green", async () => {
    const { call, sandbox } = await world({ files: project });

    const red = await call("run_tests", {});
    await sandbox.write("add.js", "export const add = (a, b) => a + b;\n");
    const green = await call("run_tests", {});
    const named = await call("run_tests", { args: ["--test-name-pattern=adds two"] });

    expect(red.value).toMatchObject({
      kind: "test.summary",
      data: { runner: "node --test", passed: 1, failed: 1, failures: [{ name: "adds two numbers" }] },
    });
    expect(red.llmContent).toContain("node --test: 1 passed, 1 failed.");
    expect(red.llmContent).toContain("-1 !== 3");
    expect(green.value).toMatchObject({
      data: { command: "npm test --silent -- --test-reporter=tap", passed: 2, failed: 0, exitCode: 0 },
    });
    expect(named.value).toMatchObject({
      data: { command: "npm test --silent -- --test-reporter=tap --test-name-pattern=adds two", passed: 1, failed: 0 },
    });
  });

  test("tests of colored output run as in a CI job, and their result has no colors", async () => {
    const colors = [
      'import { test } from "node:test";',
      'test("colors", () => { throw new Error(process.env.NO_COLOR === undefined ? "\\x1b[31mred\\x1b[39m" : "plain"); });',
    ].join("\n");
    const { call } = await world({ files: { ...project, "add.test.js": colors } });

    const { llmContent } = await call("run_tests", {});

    expect(llmContent).toContain("✗ colors\n    red\n    at add.test.js:2:1");
  });

  test("in a monorepo the tests of the changed packages run, unless a path is given", async () => {
    const inPackage = (name: string) =>
      Object.entries(project).map(([path, text]) => [`packages/${name}/${path}`, text]);
    const root = {
      "package.json": JSON.stringify({ workspaces: ["packages/*"], scripts: { test: "echo 3 passing" } }),
    };
    const files = { ...root, ...Object.fromEntries([...inPackage("a"), ...inPackage("b")]) };
    const { call, sandbox } = await world({ files });
    await sandbox.write("packages/a/add.js", "export const add = (a, b) => a + b;\n");

    const ofPackage = await call("run_tests", {});
    const ofRoot = await call("run_tests", { path: "." });
    await sandbox.write("packages/b/new.js", "export const b = 1;\n");
    await sandbox.write(".changeset/new.md", "A text of the root affects no test.\n");
    const ofBoth = await call("run_tests", {});

    expect(ofPackage.value).toMatchObject({ data: { runner: "node --test", passed: 2, failed: 0 } });
    expect(ofPackage.llmContent).toContain('the only changed package; path "." runs those of the root.');
    expect(ofRoot.value).toMatchObject({ data: { runner: "npm test", passed: 3 } });
    expect(ofBoth.llmContent.match(/node --test: \d passed, \d failed/g)).toEqual([
      "node --test: 2 passed, 0 failed",
      "node --test: 1 passed, 1 failed",
    ]);
    expect(ofBoth.llmContent).toContain("These are the tests of packages/b, of 2 changed packages;");
    expect(ofBoth.value).toMatchObject({
      data: { runner: "node --test", passed: 3, failed: 1, exitCode: 1, failures: [{ name: "adds two numbers" }] },
      summary: "node --test: 2 passed, 0 failed; node --test: 1 passed, 1 failed",
    });
  });

  test("a package without tests of its own is tested by the runner of the root, with paths from the root and without progress", async () => {
    const { call, sandbox } = await world({
      files: {
        "package.json": JSON.stringify({ scripts: { test: "vitest" } }),
        "packages/a/package.json": "{}",
        "packages/a/a.js": "",
      },
    });
    const runner = [
      "#!/usr/bin/env node",
      "const at = (place) => '\\n    at run (' + place + ':1:1)';",
      "const message = process.argv.slice(2).join(' ') + at('/workspace/packages/a/a.js') + at('/workspace/node_modules/x/y.js') + at('node:fs');",
      "const assertionResults = [{ status: 'failed', fullName: 'adds', failureMessages: [message] }];",
      "console.log(JSON.stringify({ numPassedTests: 1, numFailedTests: 1, testResults: [{ assertionResults }] }));",
      "process.exit(1);",
    ].join("\n");
    const install =
      'mkdir -p node_modules/.bin; echo "$1" > node_modules/.bin/vitest; chmod +x node_modules/.bin/vitest';
    const progress = 'printf "10%%\\r99%%\\rdone\\n"; for i in 1 2 3; do echo "Progress: $i"; done';
    const installed = await call("run_code", { language: "bash", code: `${install}; ${progress}`, args: [runner] });
    await sandbox.write("packages/a/a.js", "changed\n");

    const { llmContent } = await call("run_tests", {});

    expect(installed.llmContent).toContain("stdout:\ndone\nProgress: 3\nstderr");
    expect(llmContent).toContain("These are the tests of packages/a, the only changed package");
    expect(llmContent).toMatch(
      /✗ adds\n {4}--run --reporter=json --passWithNoTests packages\/a\/\n {8}at run \(packages\/a\/a\.js:1:1\)$/m,
    );
    expect(llmContent).not.toContain("node_modules");
  });

  test("what tests write to the repository is dropped, unless the call asks for new snapshots", async () => {
    const script = "for f in snapshot report.xml; do echo new >> $f; done; echo 1 passed; #";
    const files = { "package.json": JSON.stringify({ scripts: { test: script } }), snapshot: "old\n" };
    const { call, sandbox } = await world({ files });

    const plain = await call("run_tests", {});
    const again = await call("run_code", { language: "bash", code: "cat snapshot; ls" });

    expect(plain.llmContent).toContain("Not kept, since tests wrote it: report.xml, snapshot");
    expect(again.llmContent).toContain("stdout:\nold\npackage.json\nsnapshot\n");
    expect(await sandbox.changes()).toEqual([]);
    const updating = await call("run_tests", { args: ["--update-snapshots"] });
    expect(updating.llmContent).toContain("Changed: report.xml, snapshot");
    expect(sandbox.text("snapshot")).toBe("old\nnew\n");
  });

  test("runners that print paths relative to their own folder are understood, and so are names without a folder", async () => {
    const script = [
      "const err = { message: 'test/a.test.js:3:1 b_test.go:7 lib/twice.js:1 test/other.js:2 missing.js:4' };",
      "console.log(JSON.stringify({ stats: { passes: 0, failures: 1 }, failures: [{ fullTitle: 'test/a.test.js::adds', err }] }));",
    ].join("\n");
    const { call } = await world({
      files: {
        "packages/a/package.json": JSON.stringify({ scripts: { test: "node bin/mocha" } }),
        "packages/a/bin/mocha": script,
        "packages/a/test/a.test.js": "",
        "test/a.test.js": "",
        "test/other.js": "",
        "pkg/sub/b_test.go": "",
        "one/lib/twice.js": "",
        "two/lib/twice.js": "",
      },
    });

    const { llmContent } = await call("run_tests", { path: "packages/a" });

    expect(llmContent).toContain("✗ packages/a/test/a.test.js::adds");
    expect(llmContent).toContain(
      "packages/a/test/a.test.js:3:1 pkg/sub/b_test.go:7 lib/twice.js:1 test/other.js:2 missing.js:4",
    );
  });

  test("programs of the repository's toolchains come first in the PATH, and cannot be changed", async () => {
    const folder = mkdtempSync("/var/tmp/golem-tools-");
    onTestFinished(() => rmSync(folder, { recursive: true }));
    mkdirSync(join(folder, "bin"));
    writeFileSync(join(folder, "bin/python3"), "#!/bin/sh\necho of the toolchain\n", { mode: 0o755 });
    chmodSync(folder, 0o755);
    const policy = DeploymentPolicy.parse({
      sandbox: { tools: [{ repositories: ["Octo/*"], folders: [folder, "/not-there"] }] },
    });
    const withTools = await world({ services: { sandboxTools: sandboxTools(policy, "octo/sums") } });
    const without = await world({ services: { sandboxTools: sandboxTools(policy, "other/sums") } });
    const input = { language: "bash", code: `python3 -c ''; echo x > ${folder}/bin/python3` };

    expect((await withTools.call("run_code", input)).llmContent).toMatch(
      /of the toolchain[\s\S]*Read-only file system/,
    );
    expect((await without.call("run_code", input)).llmContent).not.toContain("of the toolchain");
  });

  test("a runner that is not installed is reported at once, without asking a registry", async () => {
    const files = { "package.json": JSON.stringify({ devDependencies: { vitest: "3" } }) };
    const { call, history, sandbox } = await world({ files });

    const result = await call("run_tests", { timeout: 120 });

    expect(result.error).toBeUndefined();
    expect(result.llmContent).toContain("A package that it needs is not installed. Call install_package.");
    const value = { kind: "terminal" as const, content: "", exitCode: 127, stderr: "spawn uv ENOENT" };
    history.push({ callId: "c", tool: "install_package", args: {}, result: { llmContent: "", value }, step: 2 });
    const again = await call("run_tests", { timeout: 120 });
    expect(again.llmContent).toContain(
      "A package that it needs is not installed, and install_package cannot install it. uv is not available in this sandbox.",
    );
    expect(again.llmContent).not.toContain("Call install_package");
    await sandbox.write("a.js", "1\n");
    await sandbox.write("package.json", JSON.stringify({ devDependencies: { prettier: "3" } }));
    const formatted = await call("format_code", { paths: ["a.js"] });
    expect(formatted.llmContent).toContain(
      "and install_package cannot install it. uv is not available in this sandbox.",
    );
  });

  test.skipIf(!existsSync("/usr/bin/java"))(
    "Java finds its settings, and Maven's passwords are not there",
    async () => {
      const { call } = await world();

      const result = await call("run_code", { language: "bash", code: "java -version && ls /etc/maven" });

      expect(result.value).toMatchObject({ exitCode: 0, stdout: expect.not.stringContaining("settings.xml") });
    },
  );

  test.skipIf(!existsSync("/usr/bin/cmake"))(
    "a CMake project is built outside of the tree and tested with ctest",
    async () => {
      const tests = ["adds COMMAND true", 'fails COMMAND sh -c "echo sums.c:5: expected 3 && exit 1"'];
      const files = {
        "CMakeLists.txt": [
          "cmake_minimum_required(VERSION 3.10)",
          "project(demo NONE)",
          "enable_testing()",
          ...tests.map((test) => `add_test(NAME ${test})`),
        ].join("\n"),
      };
      const { call } = await world({ files });

      const result = await call("run_tests", {});
      const named = await call("run_tests", { args: ["adds"] });

      expect(result.llmContent).toMatch(/^ctest: 1 passed, 1 failed\. Exit code 8 /);
      expect(result.llmContent).toContain("✗ fails\n    Failed\n    sums.c:5: expected 3");
      expect(result.llmContent).not.toContain("Not kept");
      expect(named.llmContent).toMatch(/^ctest: 1 passed, 0 failed\. Exit code 0 /);
    },
  );

  test("plain unittest runs without pytest, and names what failed", async () => {
    const code =
      "import unittest, sums\nclass T(unittest.TestCase):\n  def test_add(self): self.assertEqual(sums.add(1, 2), 3)\n";
    const { call } = await world({ files: { "sums.py": "def add(a, b): return a - b\n", "tests/test_sums.py": code } });

    const result = await call("run_tests", {});

    expect(result.value).toMatchObject({ data: { runner: "unittest", passed: 0, failed: 1 } });
    expect(result.llmContent).toContain("AssertionError: -1 != 3");
  });

  test("the tests of a folder or file of a Python project start in the project's root, whose modules they import", async () => {
    const code =
      "import unittest, sums\nclass T(unittest.TestCase):\n  def test_add(self): self.assertEqual(sums.add(1, 2), 3)\n";
    const files = {
      "setup.py": "",
      "sums.py": "def add(a, b): return a + b\n",
      "tests/__init__.py": "",
      "tests/test_sums.py": code,
    };
    const { call } = await world({ files });

    const ofFolder = await call("run_tests", { path: "tests" });
    const ofFile = await call("run_tests", { path: "tests/test_sums.py" });

    for (const result of [ofFolder, ofFile])
      expect(result.value).toMatchObject({ data: { runner: "unittest", passed: 1, failed: 0 } });
  });

  test.each([
    { path: "tests", passed: 3 },
    { path: "tests/unit", passed: 2 },
    { path: "tests/unit/test_one.py", passed: 1 },
    { path: "unpackaged", passed: 1 },
    { path: "unpackaged/test_four.py", passed: 1 },
  ])("unittest runs only the tests in the given folder or file: $path", async ({ path, passed }) => {
    const code = (imported: string) =>
      `import unittest\n${imported}\nclass T(unittest.TestCase):\n  def test_it(self): self.assertEqual(one, 1)\n`;
    const { call } = await world({
      files: {
        "setup.py": "",
        "ones.py": "one = 1\n",
        "tests/__init__.py": "",
        "tests/ones.py": "one = 1\n",
        "tests/test_three.py": code("from ones import one"),
        "tests/unit/__init__.py": "",
        "tests/unit/test_one.py": code("from ..ones import one"),
        "tests/unit/test_two.py": code("from tests.ones import one"),
        "unpackaged/helpers.py": "one = 1\n",
        "unpackaged/test_four.py": code("from helpers import one"),
      },
    });

    const { value } = await call("run_tests", { path });

    expect(value).toMatchObject({ data: { runner: "unittest", passed, failed: 0 } });
  });

  test("a test that reads a submodule fails with the reason", async () => {
    const script = "require('node:fs').readFileSync('vendor/spec/cases.json')";
    const blank = "\n".repeat(100_000);
    const gitmodules = `${blank}[submodule "spec"]\n\tpath = vendor/spec\n\turl = https://example.com/spec\n`;
    const files = { "package.json": JSON.stringify({ scripts: { test: `node -e "${script}"` } }) };
    const { call } = await world({ files: { ...files, ".gitmodules": gitmodules } });
    const before = process.threadCpuUsage();

    const { llmContent } = await call("run_tests", {});

    expect(llmContent).toContain("The files of submodules are not in the sandbox: vendor/spec.");
    expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(10_000);
  });

  test("a script's linter, which would fail on unformatted code, does not keep the tests from running", async () => {
    const { call } = await world({
      files: { "package.json": JSON.stringify({ scripts: { test: "eslint . && vitest run --typecheck" } }) },
    });
    const vitest = "#!/usr/bin/env node\nconsole.log(JSON.stringify({ numPassedTests: 7, numFailedTests: 0 }));\n";
    const install = [
      "mkdir -p node_modules/.bin; cd node_modules/.bin",
      'printf "#!/bin/sh\nexit 1\n" > eslint; echo "$1" > vitest; chmod +x eslint vitest',
    ].join("\n");
    await call("run_code", { language: "bash", code: install, args: [vitest] });

    const { llmContent } = await call("run_tests", {});

    expect(llmContent).toContain("vitest: 7 passed, 0 failed.");
  });

  test("an output without a summary is shown without the frames of the runtime", async () => {
    const script =
      "console.error('uninitialized constant Sum\\n\\tfrom /usr/lib/ruby/a.rb:1\\n\\tfrom lib/b.rb:2'); process.exit(1)";
    const { call } = await world({
      files: { "package.json": JSON.stringify({ scripts: { test: `node -e "${script}"` } }) },
    });

    const { llmContent } = await call("run_tests", {});

    expect(llmContent).toMatch(/stderr:\nuninitialized constant Sum\n\s+from lib\/b\.rb:2/);
    expect(llmContent).not.toMatch(/^\s+from \/usr/m);
  });

  test("the output of a build is shown without its compile commands", async () => {
    const build = [
      "    \u001b[34mCC\u001b[0m \u001b[33madlist.o\u001b[0m",
      "    LINK redis-server",
      "gcc -std=c99 -O2 -c -o hiredis.o hiredis.c",
      "x86_64-linux-gnu-g++-12 -c a.cpp",
      "hiredis.c:7:3: error: too few arguments",
      "CC is not set",
      "make: *** [Makefile:3: test] Error 1",
    ];
    const { call } = await world({
      files: {
        "package.json": JSON.stringify({ scripts: { test: "cat build.txt >&2; exit 1" } }),
        "build.txt": `${build.join("\n")}\n`,
      },
    });

    const { llmContent } = await call("run_tests", {});

    expect(llmContent).toMatch(/stderr:\n(hiredis.c:7:3: error.*\nCC is not set\nmake: .*Error 1)$/);
  });

  test("an output without a summary is shown without the frames of Python and its packages", async () => {
    const trace = [
      "Traceback (most recent call last):",
      '  File "<frozen runpy>", line 198, in _run_module_as_main',
      '  File "/usr/lib/python3/dist-packages/pluggy/_hooks.py", line 265, in __call__',
      "    return self._hookexec(self.name)",
      "           ^^^^^^^^^^^^^^^^^^^^^^^^^",
      '  File "/workspace/tests/helper.py", line 19, in <module>',
      "    from app import _imaging",
      '  File ".venv/lib/python3.12/site-packages/app/__init__.py", line 1, in <module>',
      "    import missing",
      "ImportError: No module named missing",
    ];
    const { call } = await world({
      files: {
        "package.json": JSON.stringify({ scripts: { test: "cat trace.txt >&2; exit 1" } }),
        "trace.txt": `${trace.join("\n")}\n`,
      },
    });

    const { llmContent } = await call("run_tests", {});

    expect(llmContent).toContain(
      [
        "Traceback (most recent call last):",
        '  File "tests/helper.py", line 19, in <module>',
        "    from app import _imaging",
        "ImportError: No module named missing",
      ].join("\n"),
    );
  });

  test("pnpm neither starts another version of itself nor installs packages before a script", async () => {
    const { call } = await world({ files: { "package.json": "{}" } });

    const { value } = await call("run_code", { language: "bash", code: "env | grep ^pnpm_ | sort" });

    expect(value).toMatchObject({
      stdout: "pnpm_config_pm_on_fail=ignore\npnpm_config_verify_deps_before_run=false\n",
    });
  });

  test("a test that never ends is a timeout", async () => {
    const { call } = await world({ files: { ...project, "add.js": "export const add = () => { while (true); };" } });

    const result = await call("run_tests", { timeout: 1 });

    expect(result.error).toMatchObject({ code: "TIMEOUT" });
  });

  test("code cannot change files of CI or dependencies, nor write where approval is required", async () => {
    const { call, sandbox } = await world({
      files: { ...project, ".github/workflows/ci.yml": "on: push\n", "asked/a": "a" },
      rules: { asked: { write: "ask" } },
    });
    const before = sandbox.text("package.json");

    const { llmContent } = await call("run_code", {
      language: "bash",
      code: "echo x | tee package.json .github/workflows/ci.yml asked/a > free",
    });

    expect(sandbox.text("package.json") + sandbox.text(".github/workflows/ci.yml") + sandbox.text("asked/a")).toBe(
      `${before}on: push\na`,
    );
    expect(sandbox.text("free")).toBe("x\n");
    expect(llmContent.match(/Not applied: /g)).toHaveLength(3);
  });

  test("no argument of any tool is read by a shell or taken for an option of another program", async () => {
    const script = 'require("node:fs").writeFileSync("seen.json", JSON.stringify(process.argv.slice(2)))';
    const args = [
      "$(touch made)",
      "; touch made",
      "`touch made`",
      "--script-shell=/bin/touch",
      "new\nline",
      "--update",
      "-rf",
      "*",
      "",
    ];
    const { call, sandbox } = await world({
      files: { "package.json": JSON.stringify({ scripts: { test: "node seen.js" } }), "seen.js": script },
    });

    await call("run_tests", { args });
    const seen = JSON.parse(sandbox.text("seen.json"));
    await call("run_code", { language: "bash", code: 'node seen.js "$@"', args });

    expect(seen).toEqual(args);
    expect(JSON.parse(sandbox.text("seen.json"))).toEqual(args);
    expect(await sandbox.exists("made")).toBe(false);
  });

  test("the project's own formatter formats, and only what the call names or the run has changed is kept", async () => {
    const { call, sandbox } = await world({
      files: {
        "package.json": JSON.stringify({ scripts: { format: "node format.js" } }),
        "format.js": 'for (const name of ["a.js", "b.js"]) require("node:fs").writeFileSync(name, "let a;\\n");',
        "a.js": "let  a",
        "b.js": "let  a",
      },
    });
    await expect(call("format_code", {})).rejects.toThrow("This run has changed no file in the repository.");
    await sandbox.write("a.js", "let   a");

    const changed = await call("format_code", {});
    const again = await call("format_code", { paths: ["a.js"] });
    const before = sandbox.text("b.js");
    const all = await call("format_code", { paths: ["."] });

    const left = "Not kept, since this call does not name them: b.js";
    expect(changed.llmContent).toBe(`npm run format: Changed: a.js\n${left}`);
    expect(again.llmContent).toBe(`npm run format: Nothing to change in these files.\n${left}`);
    expect(before).toBe("let  a");
    expect(all.llmContent).toBe("npm run format: Changed: b.js");
    expect(sandbox.text("a.js") + sandbox.text("b.js")).toBe("let a;\nlet a;\n");
  });

  test("only the files that the run has changed are formatted, each with the formatter of the nearest folder", async () => {
    const { call, sandbox } = await world({
      files: {
        "package.json": '{"devDependencies":{"prettier":"3"}}',
        "tools/package.json": '{"scripts":{"format":"exit 3"}}',
        "packages/a/package.json": "{}",
        "packages/a/old.js": "",
        "packages/b/old.js": "",
      },
    });
    const prettier = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift\nfor f; do echo formatted > "$f"; done\n';
    await call("run_code", {
      language: "bash",
      code: `mkdir -p node_modules/.bin && printf '%s' "$1" > node_modules/.bin/prettier && chmod +x node_modules/.bin/*`,
      args: [prettier],
    });
    await expect(call("format_code", { path: "packages/a" })).rejects.toThrow("has changed no file in packages/a");
    await sandbox.write("packages/a/new.js", "let  a");
    await sandbox.write("packages/b/new.js", "let  b");

    const { llmContent } = await call("format_code", { path: "packages/a" });
    await call("format_code", { path: "packages/b", paths: ["old.js"] });
    const notFormatted = sandbox.text("packages/a/old.js") + sandbox.text("packages/b/new.js");
    await sandbox.write("tools/new.js", "let  c");
    const both = await call("format_code", {});

    expect(llmContent).toBe("prettier: Changed: packages/a/new.js");
    expect(notFormatted).toBe("let  b");
    expect(sandbox.text("packages/b/old.js")).toBe("formatted\n");
    expect(both.llmContent).toMatch(
      /^prettier: Changed: packages\/b\/new\.js\nExit code 3 after [\d.]+ s\.\nstdout: \(nothing\)\nstderr: \(nothing\)$/,
    );
    expect(both.value).toMatchObject({ kind: "terminal", exitCode: 3 });
  });
});

describe("without an OS sandbox", () => {
  test.each([
    ["run_code", { language: "python", code: "print(1)" }],
    ["run_tests", {}],
    ["format_code", { paths: ["add.js"] }],
    ["install_package", { packages: ["left-pad"] }],
  ])("%s is unavailable, and says why", async (name, args) => {
    const files = { ...project, "package.json": '{"scripts":{"test":"node --test","format":"x"}}' };
    const { call } = await world({ files, services: { executors: closed } });

    await expect(call(name, args)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: "unavailable: no OS sandbox (it is switched off by this deployment)",
    });
  });
});

describe("the test runner and the formatter of a project", () => {
  test.each([
    [{ "package.json": '{"scripts":{"test":"vitest run"}}' }, "vitest"],
    [{ "package.json": '{"devDependencies":{"vitest":"1"}}' }, "vitest"],
    [{ "package.json": '{"scripts":{"test":"jest --coverage"}}' }, "jest"],
    [{ "package.json": '{"scripts":{"test":"mocha"}}' }, "mocha"],
    [{ "package.json": '{"scripts":{"test":"NODE_ENV=test node --import tsx --test"}}' }, "node --test"],
    [{ "package.json": '{"scripts":{"test":"make check"}}' }, "npm test"],
    [
      { "package.json": '{"scripts":{"test":"echo \\"Error: no test specified\\" && exit 1"}}', "pytest.ini": "" },
      "pytest",
    ],
    [{ "go.mod": "module x" }, "go test"],
    [{ ".rspec": "" }, "rspec"],
    [{ Gemfile: 'gem "rspec"' }, "rspec"],
    [{ Gemfile: 'gem "rspec"', Rakefile: "Rake::TestTask.new(:test)", "spec/a_spec.rb": "" }, "rspec"],
    [{ Gemfile: 'gem "rspec"', Rakefile: "Rake::TestTask.new(:test)", "test/test_a.rb": "" }, "rake test"],
    [{ Gemfile: 'gem "rails"' }, undefined],
    [
      { Gemfile: 'gem "rubocop-rspec"', Rakefile: 'Rake::TestTask.new(:test) { |t| t.pattern = "spec/**" }' },
      "rake test",
    ],
    [{ "package.json": '{"scripts":{"test":"nx run-many -t test:lib","test:lib":"vitest"}}' }, "vitest"],
    [{ "package.json": '{"scripts":{"test":"npm run lint && npm run spec","spec":"mocha"}}' }, "mocha"],
    [{ "package.json": '{"scripts":{"test":"npm run lint && npm run unit","unit":"borp"}}' }, "borp"],
    [
      { "package.json": '{"scripts":{"test":"pnpm run \\"/^test:.*/\\"","test:lint":"xo","test:spec":"vitest"}}' },
      "vitest",
    ],
    [{ "package.json": '{"scripts":{"test":"run-s lint test:*","lint":"xo","test:unit":"mocha"}}' }, "mocha"],
    [{ "package.json": '{"scripts":{"test":"npm run cov","cov":"nyc npm run spec","spec":"ava"}}' }, "ava"],
    [{ "package.json": '{"scripts":{"test":"npm run test"}}' }, "npm test"],
    [{ "package.json": '{"scripts":{"test":"node --flag node_modules/jest/bin/jest.js"}}' }, "jest"],
    [{ "package.json": '{"scripts":{"test":"nyc ./node_modules/mocha/bin/_mocha"}}' }, "mocha"],
    [{ "package.json": '{"scripts":{"test":"xo && ava && tsd"}}' }, "ava"],
    [{ "package.json": '{"scripts":{"test":"node --test --test-reporter tap"}}' }, "node --test"],
    [{ "package.json": '{"scripts":{"test":"turbo run test"}}' }, "npm test"],
    [{ "package.json": "{}", "vitest.config.ts": "" }, "vitest"],
    [{ "package.json": "{}", "vite.config.mts": "export default { test: { globals: true } };" }, "vitest"],
    [{ "package.json": "{}", "vite.config.ts": "export default { plugins: [] };" }, undefined],
    [{ "project.json": '{"name":"a","targets":{}}', "jest.config.ts": "" }, "jest"],
    [{ "project.json": '{"name":"a","targets":{"test":{}}}' }, "nx test"],
    [{ "project.json": '{"name":"a","targets":{"build":{}}}' }, undefined],
    [{ "tox.ini": "commands = pytest", "tests/test_a.py": "import unittest\n" }, "pytest"],
    [{ "tox.ini": "commands = python -m unittest", "tests/test_a.py": "import unittest\n" }, "unittest"],
    [{ "Cargo.toml": "" }, "cargo test"],
    [{ "pkg/test_a.py": "" }, "pytest"],
    [{ "setup.py": "", "tests/test_a.py": "import unittest\n" }, "unittest"],
    [{ "requirements-dev.txt": "pytest\n", "test_a.py": "import unittest\n" }, "pytest"],
    [{ "test_a.py": "from unittest import mock\ndef test_a(): pass\n" }, "pytest"],
    [{ Makefile: "all:\n\ntest: all\n\t./check\n" }, "make test"],
    [{ "pom.xml": "<project/>", "scripts/test_a.py": "" }, "mvn test"],
    [{ "build.gradle.kts": "" }, "gradle test"],
    [{ "settings.gradle": "", "app/build.gradle": "" }, "gradle test"],
    [{ "CMakeLists.txt": "project(a)\nenable_testing()\n", "tools/test_a.py": "" }, "ctest"],
    [{ "CMakeLists.txt": "project(a)\ninclude(CTest)\n", "pyproject.toml": "" }, "pytest"],
    [{ "CMakeLists.txt": "project(a)\ninclude(CTest)\n", Makefile: "test: all\n" }, "ctest"],
    [{ "CMakeLists.txt": "project(a)\n", Makefile: "test: all\n" }, "make test"],
    [{ Makefile: "test := 1\n" }, undefined],
    [{ "README.md": "" }, undefined],
  ])("%j is tested with %s", async (files: Record<string, string>, name) => {
    expect((await findTestRunner(memoryWorkspace(files), ""))?.name).toBe(name);
  });

  test.each([
    ["mocha --require x 'spec/**/*.js'", "npm test --silent -- --reporter json"],
    ["NODE_OPTIONS=--experimental-vm-modules jest", "npm test --silent -- --json --ci --updateSnapshot=false"],
    ["tsc && vitest --dir spec", "npm test --silent -- --run --reporter=json"],
    ["vitest run && eslint .", "npx --no-install vitest run --reporter=json"],
    ["jest --watch", "npx --no-install jest --json --ci --updateSnapshot=false"],
    ["node --test --test-reporter=spec", "npm test --silent --"],
    ["node --test && npm run types", "node --test-reporter=tap --test"],
    ["npm run lint && node --test 'test/*.js'", "node --test-reporter=tap --test test/*.js"],
    ["npm run build && node --test && tsd", "npm test --silent --"],
    ["node --test --test-reporter=spec && tsd", "node --test --test-reporter=spec"],
    ["yarn lint && yarn jest --ci", "npx --no-install jest --ci --json --updateSnapshot=false"],
    ["pnpm lint && vitest run --typecheck", "npx --no-install vitest run --typecheck --run --reporter=json"],
    ["eslint . && prettier -c src && npx mocha -r ts-node", "npx --no-install mocha -r ts-node --reporter json"],
    ["npx tsc --noEmit && mocha 'test/*.{js,ts}'", "npx --no-install mocha test/*.{js,ts} --reporter json"],
    ["npm run lint && mocha test/*.js", "npm test --silent -- --reporter json"],
    ['npm run lint && mocha "$FILES"', "npm test --silent -- --reporter json"],
    ["npm run lint && cross-env A=1 mocha", "npm test --silent -- --reporter json"],
    ["npm run lint && npm run build && mocha", "npm test --silent -- --reporter json"],
    ["vitest run -u", "npx --no-install vitest run --run --reporter=json"],
    ["eslint . && vitest --dir spec --update", "npx --no-install vitest --dir spec --run --reporter=json"],
    ["ava -u", "npx --no-install ava --tap"],
    ["borp --coverage", "npm test --silent -- --reporter=tap"],
    ["xo && ava && tsd", "npx --no-install ava --tap"],
    ["tap", "npm test --silent -- --reporter=tap"],
  ])("the options of the script %j are kept, and only the report is ours", async (script, command) => {
    const files = { "package.json": JSON.stringify({ scripts: { test: script } }) };

    expect((await findTestRunner(memoryWorkspace(files), ""))?.command.join(" ")).toBe(command);
  });

  test.each<[Record<string, string>, { path?: string; args?: string[] }, string]>([
    [{ "go.mod": "" }, {}, "go test -json ./..."],
    [{ "go.mod": "" }, { args: ["a_test.go", "binding"] }, "go test -json ./. ./binding"],
    [{ "go.mod": "" }, { args: ["TestA", "TestB/sub"] }, "go test -json ./... -run ^(TestA|TestB)$"],
    [{ "go.mod": "" }, { args: ["-run", "TestA", "./binding"] }, "go test -json ./binding -run TestA"],
    [{ "go.mod": "" }, { args: ["-v", "TestA", "-count", "1"] }, "go test -json ./... -run ^(TestA)$ -v -count 1"],
    [{ "go.mod": "", "binding/a_test.go": "" }, { path: "binding" }, "go test -json ./binding/..."],
    [{ "go.mod": "", "binding/a_test.go": "" }, { path: "binding/a_test.go" }, "go test -json ./binding"],
    [{ "Cargo.toml": "" }, {}, "cargo test --offline --no-fail-fast"],
    [{ "Cargo.toml": "" }, { args: ["tests/a.rs"] }, "cargo test --offline --no-fail-fast --test a"],
    [{ "Cargo.toml": "" }, { args: ["src/a/mod.rs", "b"] }, "cargo test --offline --no-fail-fast -- a:: b"],
    [{ "Cargo.toml": "" }, { args: ["--lib", "a", "--", "b"] }, "cargo test --offline --no-fail-fast --lib a -- b"],
    [{ "Cargo.toml": "", "tests/a.rs": "" }, { path: "tests/a.rs" }, "cargo test --offline --no-fail-fast --test a"],
    [
      { "package.json": '{"scripts":{"test":"node --test && tsd"}}', "test/a.test.js": "" },
      { path: "test/a.test.js" },
      "node --test --test-reporter=tap test/a.test.js",
    ],
    [{ "CMakeLists.txt": "project(a)\nenable_testing()\n" }, { args: ["tests/a.c"] }, "ctest --tests-regex a"],
    ...[
      ["mocha", "npx --no-install mocha --reporter json test/a.js"],
      [
        "mocha -r ts-node/register --check-leaks test/ 'spec/*.js'",
        "npx --no-install mocha -r ts-node/register --check-leaks --reporter json test/a.js",
      ],
      [
        "npm run lint && NODE_ENV=test nyc --silent mocha test",
        "env NODE_ENV=test npx --no-install mocha --reporter json test/a.js",
      ],
      ["npm run build && mocha test", "npm test --silent -- --reporter json test/a.js"],
      ["mocha $FILES", "npm test --silent -- --reporter json test/a.js"],
      ["borp -t 1000 'test/*.js'", "env BORP_CONF_FILE=none npx --no-install borp -t 1000 --reporter=tap test/a.js"],
      ["node --import tsx --test test/**/*.{js,ts}", "node --import tsx --test --test-reporter=tap test/a.js"],
      ["node --import tsx --test 'test/*.js'", "node --import tsx --test --test-reporter=tap test/a.js"],
    ].map(([script, command = ""]): [Record<string, string>, { args: string[] }, string] => [
      { "package.json": JSON.stringify({ scripts: { test: script } }), "test/a.js": "" },
      { args: ["test/a.js"] },
      command,
    ]),
    [
      { "package.json": '{"scripts":{"test":"mocha test"}}', "test/a.js": "" },
      { args: ["--grep", "adds"] },
      "npm test --silent -- --reporter json --grep adds",
    ],
  ])("in %j, the tests that %j names are run", async (files, { path, args = [] }, command) => {
    const workspace = memoryWorkspace(files);

    const [found] = await findTests(workspace, { path, args, canRunCode: true });

    expect(found && (await testCommand(workspace, found, args)).join(" ")).toBe(command);
  });

  test("a Maven module is tested from the project that lists it, and named tests become options", async () => {
    const pom = (...modules: string[]) => modules.map((module) => `<module>${module}</module>`).join("\n");
    const files = {
      "pom.xml": pom("libs"),
      "libs/pom.xml": `<!-- ${pom("old")} -->${pom("core")}`,
      "libs/core/pom.xml": "",
      "libs/old/pom.xml": "",
      "app/build.gradle": "",
    };
    const workspace = memoryWorkspace(files);
    const commandOf = async (folder: string, ...args: string[]) => {
      const [found] = await findTests(workspace, { path: folder, args, canRunCode: true });
      return found && (await testCommand(workspace, found, args)).join(" ");
    };
    const maven = "mvn --batch-mode --offline --fail-at-end";
    const only = "-Dsurefire.failIfNoSpecifiedTests=false";

    expect(await commandOf("")).toBe(`${maven} test`);
    expect(await commandOf("libs/core")).toBe(`${maven} --file ../../pom.xml --projects libs/core --also-make test`);
    expect(await commandOf("libs/old", "src/test/java/a/BTest.java", "CTest#adds")).toBe(
      `${maven} test -Dtest=BTest,CTest#adds ${only}`,
    );
    expect(await commandOf("libs/old", "-Dtest=BTest")).toBe(`${maven} test -Dtest=BTest`);
    expect(await commandOf("app", "src/test/kotlin/ATest.kt")).toMatch(/ test --tests ATest$/);
  });

  test("the build files of a hostile repository are read in linear time", async () => {
    const files = {
      "pom.xml": "<!--".repeat(100_000),
      "app/pom.xml": "",
      "native/CMakeLists.txt": `project(a)${"\n".repeat(200_000)}`,
      "lib/setup.py": "\n".repeat(200_000),
    };
    const workspace = memoryWorkspace(files);
    const before = process.threadCpuUsage();

    const found = await Promise.all(["app", "native", "lib"].map((folder) => findTestRunner(workspace, folder)));

    const { user, system } = process.threadCpuUsage(before);
    expect(found.map((runner) => runner?.name)).toEqual(["mvn test", undefined, "pytest"]);
    expect((user + system) / 1_000).toBeLessThan(5_000);
  });

  test("the commands of a script that starts its runner several times each get a report", async () => {
    const test = "eslint . && vitest run && vitest run --config 'vitest.server.config.mjs'";
    const files = { "package.json": JSON.stringify({ scripts: { test } }) };

    expect(await findTestRunner(memoryWorkspace(files), "")).toMatchObject({
      command: ["npx", "--no-install", "vitest", "run", "--run", "--reporter=json"],
      furtherCommands: [
        ["npx", "--no-install", "vitest", "run", "--config", "vitest.server.config.mjs", "--run", "--reporter=json"],
      ],
    });
  });

  test.each([
    [{ pretest: "npm run lint" }, "npm test --silent --ignore-scripts -- --reporter json"],
    [{ posttest: "rollup -c" }, "npm test --silent --ignore-scripts -- --reporter json"],
    [{ pretest: "npm run lint && npm run build" }, "npm test --silent -- --reporter json"],
  ])("of the scripts around the tests %j, only builds before them run", async (scripts, command) => {
    const files = { "package.json": JSON.stringify({ scripts: { ...scripts, test: "nyc mocha" } }) };

    expect((await findTestRunner(memoryWorkspace(files), ""))?.command.join(" ")).toBe(command);
  });

  test("pytest runs the other tests if a file cannot be imported", async () => {
    const runner = await findTestRunner(memoryWorkspace({ "pytest.ini": "" }), "");

    expect(runner?.command).toContain("--continue-on-collection-errors");
  });

  test.each([
    [{ "tests/test_a.py": "import unittest" }, "-s tests"],
    [{ "tests/__init__.py": "", "tests/test_a.py": "import unittest" }, ""],
    [{ "a_test.py": "import unittest" }, "-p *_test.py"],
  ])("unittest finds the tests of %j", async (files: Record<string, string>, options) => {
    const command = (await findTestRunner(memoryWorkspace(files), ""))?.command.join(" ");

    expect(command).toBe(`python3 -m unittest discover ${options}`.trim());
  });

  test("without tests in the root, the folders whose Makefile has a target test are suggested", async () => {
    const files = {
      Makefile: ".DEFAULT:\n\tcd src && $(MAKE) $@\n",
      "deps/hiredis/Makefile": "test: all\n",
      "deps/lua/Makefile": "all:\n",
      "src/Makefile": "all:\n\ntest: all\n\t./runtest\n",
    };
    const { call } = await world({ files });

    const refusal = call("run_tests", {});

    await expect(refusal).rejects.toMatchObject({
      suggestion: "Give the folder of a package in `path`: src, deps/hiredis.",
    });
  });

  test("without tests in the root, the folders of its packages are suggested", async () => {
    const files = {
      "package.json": "{}",
      "packages/a/package.json": "{}",
      "libs/b/go.mod": "",
      "examples/c/package.json": "{}",
    };
    const { call } = await world({ files });

    const refusal = call("run_tests", {});

    await expect(refusal).rejects.toMatchObject({
      suggestion: "Give the folder of a package in `path`: libs/b, packages/a.",
    });
  });

  test.each([
    [
      { "CMakeLists.txt": "project(demo)" },
      undefined,
      "Give the folder of the project in `path`, or start its tests with run_code.",
    ],
    [
      { "a.txt": "" },
      ["run_tests"],
      "Give the folder of the project in `path`, or say in your answer that the tests were not run.",
    ],
  ])(
    "without a supported runner in %j, a worker with the tools %j is told what it can do",
    async (files, offered, suggestion) => {
      const worker = { ...runSpec.worker, offered_tools: offered };
      const { call } = await world({ files, services: { spec: { ...runSpec, worker } } });

      await expect(call("run_tests", {})).rejects.toMatchObject({ suggestion });
    },
  );

  test.each([
    ["nx run-many -t test", true],
    ["npm run lint && turbo run test", true],
    ["pnpm -r test", true],
    ["pnpm --filter './packages/*' test", true],
    ["npm test --workspaces", true],
    ["make nx", false],
  ])("the root's script %j starts the tests of all packages: %j", async (script, startsAll) => {
    const files = { "package.json": JSON.stringify({ scripts: { test: script } }) };

    const runner = await findTestRunner(memoryWorkspace(files), "");

    expect(runner?.scriptOfAllPackages).toBe(startsAll ? script : undefined);
  });

  test("in a large monorepo, the tests of all packages run only if the root is named", async () => {
    const names = ["a", "b", "c", "d", "e"].map((name) => `libs/${name}`);
    const { call, sandbox } = await world({
      files: {
        "package.json": JSON.stringify({ scripts: { test: "turbo run test" } }),
        ...Object.fromEntries(names.map((name) => [`${name}/project.json`, '{"name":"x","targets":{"test":{}}}'])),
        "libs/f/package.json": '{"scripts":{"test":"mocha"}}',
      },
    });
    const unchanged = call("run_tests", {});
    await expect(unchanged).rejects.toMatchObject({
      message: `The test script of the root, \`turbo run test\`, starts the tests of all 6 packages.`,
      suggestion: `Give the folder of a package in \`path\`: ${names.join(", ")}, libs/f. \`.\` runs all.`,
    });
    for (const name of [...names, "libs/f"]) await sandbox.write(`${name}/new.ts`, "");

    const changed = call("run_tests", {});

    await expect(changed).rejects.toMatchObject({
      suggestion: `Give the folder of a package in \`path\`: ${names.join(", ")}, libs/f. \`.\` runs all.`,
    });
    expect((await call("run_tests", { path: "." })).llmContent).toContain("npm test:");
  });

  test("a runner is limited to a folder or to a file", async () => {
    const files = {
      "pyproject.toml": "",
      "tests/conftest.py": "",
      "tests/test_a.py": "",
      "tests/test_b.py": "",
      "packages/own/conftest.py": "",
      "packages/own/pyproject.toml": "",
    };
    const workspace = memoryWorkspace(files);
    const named = async (path: string) => {
      const [found] = await findTests(workspace, { path, args: [], canRunCode: true });
      const command = found && (await testCommand(workspace, found, []));
      return [found?.folder, ...(command?.slice(found?.runner.command.length) ?? [])];
    };

    expect(await named("tests")).toEqual(["", "tests/"]);
    expect(await named("tests/test_b.py")).toEqual(["", "tests/test_b.py"]);
    expect(await named("packages/own")).toEqual(["packages/own"]);
  });

  test("unittest imports a package in src without installing it", async () => {
    const files = { "src/own/__init__.py": "", "tests/__init__.py": "", "tests/test_a.py": "import unittest" };

    expect((await findTestRunner(memoryWorkspace(files), ""))?.env).toEqual({ PYTHONPATH: "src" });
  });

  test.each([
    [1, "npm error code ENOTCACHED", "Call install_package"],
    [127, "sh: 1: vitest: not found", "Call install_package"],
    [
      127,
      "sh: 1: pnpm: not found",
      "pnpm is not available in this sandbox; pnpm (`npm install --global pnpm`) provides it.",
    ],
    [127, "sh: line 1: yarn: command not found", "yarn is not available in this sandbox"],
    [1, "/usr/bin/python3: No module named pytest", "Call install_package"],
    [1, "Error: Cannot find module 'left-pad'", "Call install_package"],
    [1, "go: example.com/x@v1.0.0: module lookup disabled by GOPROXY=off", "Call install_package"],
    [
      101,
      "error: no matching package named `x` found\nAs a reminder, you may wish to retry without `--offline`",
      "Call",
    ],
    [
      1,
      "E   importlib.metadata.PackageNotFoundError: No package metadata was found for click",
      "[pip install --editable .]",
    ],
    [
      127,
      "prlimit: failed to execute go: No such file or directory",
      "go is not available in this sandbox; Go provides it. The deployment can mount it: `sandbox.tools`",
    ],
    [127, "spawn uv ENOENT", "uv is not available in this sandbox. The deployment can mount it"],
    [
      1,
      "git_proxy.rb:224:in `allowed_with_path': The git source https://github.com/rspec/rspec-mocks.git is not yet checked out. Please run `bundle install` before trying to start your application (Bundler::GitError)",
      "`setup: [bundle install]`",
    ],
    [
      127,
      "bash: line 4: gradle: command not found",
      "gradle is not available in this sandbox; a JDK with Maven or Gradle",
    ],
    [1, "ERROR: JAVA_HOME is not set and no 'java' command could be found in your PATH.", "java is not available"],
    [1, "No CMAKE_CXX_COMPILER could be found.", "the system's package build-essential provides it"],
    [
      1,
      "Cannot access central (https://repo.maven.apache.org/maven2) in offline mode and the artifact org.codehaus.plexus:plexus-utils:jar:1.1 has not been downloaded",
      "install_package cannot install those of Maven or Gradle",
    ],
    [
      1,
      "> No cached version of junit:junit:4.13 available for offline mode.",
      "install_package cannot install those of Maven or Gradle",
    ],
    [
      1,
      "go: errors parsing go.mod:\ngo.mod:3: invalid go version '1.25.0': must match format 1.23",
      "This project needs Go 1.25.0 or later, which this sandbox does not have. The deployment can mount it: `sandbox.tools`",
    ],
    [1, "go: go.mod requires go >= 1.25.0 (running go 1.22.1; GOTOOLCHAIN=local)", "needs Go 1.25.0 or later"],
    [101, "error: package `a v1` cannot be built because it requires rustc 1.85 or newer", "needs Rust 1.85 or later"],
    [
      101,
      "lock file version `4` was found, but lock file version 4 requires `-Znext-lockfile-bump`",
      "a newer version of Rust",
    ],
    [1, "ERROR: Package 'a' requires a different Python: 3.11.2 not in '>=3.12'", "needs Python 3.12 or later"],
    [18, "Your Ruby version is 3.1.2, but your Gemfile specified ~> 3.3.0", "needs Ruby 3.3.0 or later"],
    [1, "Fatal error compiling: error: release version 21 not supported", "needs JDK 21 or later"],
    [1, "CMake 3.30 or higher is required.  You are running version 3.25.1", "needs CMake 3.30 or later"],
    [1, "Error: Cannot find module './mine.js'", undefined],
    [1, "Error: Cannot find module '/workspace/src/mine.js'", undefined],
    [1, "Error: Cannot find module '/workspace/node_modules/jest-cli/bin/jest'", "Call install_package."],
    [1, "Error: Cannot find module '/workspace/packages/a/node_modules/mocha/bin/mocha'", "Call install_package."],
    [0, "npm error code ENOTCACHED", undefined],
  ])("exit code %i with %j is explained as a missing program", (exitCode, stderr, said) => {
    const sentence = describeMissingProgram({ exitCode, stderr });

    if (said) expect(sentence).toContain(said);
    else expect(sentence).toBeUndefined();
  });

  test("after an installation that failed, its cause comes first", () => {
    const failed = { exitCode: 1, stderr: "Error: Cannot find module 'left-pad'" };

    const sentence = describeMissingProgram(failed, { exitCode: 1, stderr: "npm error 403 Forbidden" });

    expect(sentence).toContain("the last call of install_package failed. Remove the cause of that first.");
    expect(describeMissingProgram(failed, { exitCode: 0, stderr: "" })).toContain("Call install_package.");
  });

  test("the end of a failed installation has its errors without warnings, packages, requests and frames, each once", () => {
    const output = [
      "Progress: resolved 1, reused 0",
      "+ left-pad 1.0.0",
      "npm warn deprecated x@1.0.0",
      "➤ YN0060: │ a is listed by your project with version 2",
      "➤ YN0001: │ Error: Couldn't allocate enough memory",
      "    at ZipFS.writeFileSync ([worker eval]:1:313468)",
      "    at h (/workspace/.yarn/releases/yarn-4.4.1.cjs:147:23028)",
      "    at build (/workspace/scripts/build.js:3:1)",
      "gyp http GET https://nodejs.org/headers",
      "gyp ERR! not ok",
      "12: 0x7fb44cf26b50 __clone [libc.so.6]",
      "info There appears to be trouble with your network connection.",
      "info There appears to be trouble with your network connection.",
      `var bundled = ${"x".repeat(1_000)}`,
    ].join("\n");

    const lines = endOfInstallation(output, 30).split("\n");

    expect(lines).toEqual([
      "➤ YN0001: │ Error: Couldn't allocate enough memory",
      "    at build (/workspace/scripts/build.js:3:1)",
      "gyp ERR! not ok",
      "info There appears to be trouble with your network connection.",
      `var bundled = ${"x".repeat(285)}…`,
    ]);
    expect(endOfInstallation(output, 1)).toBe(lines.at(-1));
  });

  test.each<[Record<string, string>, string, string[]]>([
    [{ "package.json": '{"devDependencies":{"@biomejs/biome":"2","prettier":"3"}}' }, "a.js", ["biome"]],
    [{ "package.json": '{"devDependencies":{"prettier":"3"}}' }, "a.md", ["prettier"]],
    [{ "package.json": '{"devDependencies":{"oxfmt":"0.5"}}' }, "a.ts", ["oxfmt"]],
    [{ "package.json": '{"devDependencies":{"standard":"17"}}' }, "a.js", ["standard"]],
    [{ "package.json": '{"scripts":{"format":"x"}}' }, "a.py", ["npm run format"]],
    [
      { "package.json": '{"scripts":{"format":"prettier -c x.json -w ."},"devDependencies":{"prettier":"3"}}' },
      "a.js",
      ["npm run format"],
    ],
    [
      { "package.json": '{"scripts":{"format":"prettier --single-quote -w ."},"devDependencies":{"prettier":"3"}}' },
      "a.js",
      ["npm run format"],
    ],
    [{ "pyproject.toml": "[tool.ruff]\n", "package.json": '{"devDependencies":{"prettier":"3"}}' }, "a.py", ["ruff"]],
    [{ "requirements-dev.txt": "black==24\n" }, "a.pyi", ["black"]],
    [{ "go.mod": "", "package.json": '{"devDependencies":{"prettier":"3"}}' }, "a.go", ["gofmt"]],
    [{ "go.mod": "", "package.json": '{"devDependencies":{"prettier":"3"}}' }, "a.yml", ["prettier"]],
    [{ "Cargo.toml": "" }, "src/a.rs", ["cargo fmt"]],
    [{ "Cargo.toml": "" }, "a.js", []],
    [{ "README.md": "" }, "a.js", []],
  ])("of %j, the file %s is formatted with %j", async (files, name, expected) => {
    const formatters = await findFormatters(memoryWorkspace(files), "");

    const [first] = formatters.filter(({ formats }) => formats.test(name));

    expect(first ? [first.name] : []).toEqual(expected);
  });

  test.each<Record<string, string>>([
    { "package.json": '{"devDependencies":{"@biomejs/biome":"2"}}' },
    { "package.json": '{"devDependencies":{"prettier":"3"}}' },
    { "pyproject.toml": "[tool.ruff]\n" },
    { "go.mod": "" },
  ])("a file named like an option is passed as a file to the formatter of %j", async (files) => {
    const names = ["--config=evil.js", "-x", "$(id)"];

    const command = (await findFormatters(memoryWorkspace(files), ""))[0]?.command(names) ?? [];

    expect(command.slice(-4)).toEqual(["--", ...names]);
  });

  test("an invalid package.json is reported in a sentence", async () => {
    await expect(findTestRunner(memoryWorkspace({ "package.json": "{" }), "")).rejects.toThrow(
      "package.json is not valid JSON",
    );
  });
});

test.each([
  [{ language: "python", code: "x".repeat(200_000) }, "too long"],
  [{ language: "bash", code: "a\0b" }, "NUL"],
  [{ language: "bash", code: "a", args: ["a\0b"] }, "NUL"],
  [{ language: "bash", code: "a", args: ["x".repeat(130_000)] }, "too long"],
  [{ language: "bash", code: "a", args: Array(20).fill("x".repeat(100_000)) }, "too long"],
  [{ language: "bash", code: "a", env: { "A=B": "x" } }, "not a valid name for an environment variable"],
])("code that cannot be passed on is refused in a sentence", async (input, message) => {
  await expect((await world()).call("run_code", input)).rejects.toThrow(message);
});
