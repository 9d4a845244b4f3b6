import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { createExecutors, type Executors } from "#executors/create-executors.ts";
import { installCommand } from "#toolsets/code/install-command.ts";
import { findManager, installFiles, managers, type PackageManager } from "#toolsets/code/install-files.ts";
import { codeToolset } from "#toolsets/registry.ts";
import { memoryWorkspace } from "../../support/memory-workspace.ts";
import { startPackageRegistry } from "../../support/package-registry.ts";
import { toolContext, toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

const registry = await startPackageRegistry();
// Not in the folder for temporary files, which guests do not share.
/** Programs that report what they see, for the managers that this machine does not have. */
const recorders = mkdtempSync("/var/tmp/recorders-");
const recorded = createExecutors({ os: { toolPaths: [recorders] } });
/** Folders with real package managers besides those of the system. */
const toolPaths = process.env.GOLEM_FORGE_TEST_TOOL_PATHS?.split(":") ?? [];
const real = createExecutors({ os: { toolPaths, privateRegistries: [registry.host] } });
const { available, reason } = await real.availability("os");
afterAll(async () => {
  await Promise.all([recorded.close(), real.close()]);
  registry.close();
  rmSync(recorders, { recursive: true });
});

const recorder = `#!/bin/bash
[ "$1" = --version ] && { echo "$GOLEM_TEST_VERSION"; exit; }
mkdir -p node_modules/left-pad .venv/lib "$HOME/go/pkg/mod/left" "$HOME/.cargo/registry/left"
echo installed | tee node_modules/left-pad/index.js .venv/lib/left .golem-left > /dev/null
echo changed >> package-lock.json; echo new > planted.sh
[ -f package.json ] && cat package.json > copy && mv copy package.json
rm "$(mktemp)" || exit
echo "npm warn deprecated left-pad@1.0.0: use the language" >&2
echo "folder: $(find . -type f | sort | xargs)"
echo "home: $(find ~ -type f | sort | xargs)"
echo "call: $0 $*"
env | sort | sed 's/^/env: /'
`;
mkdirSync(join(recorders, "bin"));
for (const name of ["npm", "pnpm", "yarn", "uv", "go", "cargo"]) {
  writeFileSync(
    join(recorders, "bin", name),
    recorder.replace("$GOLEM_TEST_VERSION", name === "yarn" ? "1.22.0" : "1"),
  );
}
for (const path of ["", "bin", ...["npm", "pnpm", "yarn", "uv", "go", "cargo"].map((name) => `bin/${name}`)]) {
  chmodSync(join(recorders, path), 0o755);
}

let runs = 0;
function world(options: WorldOptions = {}) {
  runs += 1;
  const commit = String(runs).padStart(40, "a");
  return toolsetWorld(codeToolset, { commit, ...options, services: { executors: real, ...options.services } });
}

const hostileScript = "#!/bin/sh\necho HOSTILE >&2\n";
const hostilePython = "import sys; sys.stderr.write('HOSTILE')\n";

/** A repository that tries to run its code in every package manager, with the files that each of them needs. */
const hostileTree: Record<string, string> = {
  "package.json": JSON.stringify({
    name: "project",
    version: "1.0.0",
    dependencies: { "left-pad": "1.0.0" },
    packageManager: "pnpm@9.0.0",
    pnpm: { onlyBuiltDependencies: ["left-pad"] },
    scripts: Object.fromEntries(["preinstall", "install", "postinstall", "prepare"].map((name) => [name, "./evil.sh"])),
  }),
  "evil.sh": hostileScript,
  ".npmrc":
    "git=./evil.sh\nignore-scripts=false\nscript-shell=./evil.sh\nnode-options=--require=./evil.cjs\nregistry=https://evil.example/\nenable-pre-post-scripts=true\n",
  "evil.cjs": "console.error('HOSTILE');\n",
  ".pnpmfile.cjs": "console.error('HOSTILE'); module.exports = { hooks: {} };\n",
  ".yarnrc": 'yarn-path "./evil.cjs"\nregistry "https://evil.example/"\nenableScripts true\n',
  ".yarnrc.yml":
    "yarnPath: ./evil.cjs\nenableScripts: true\nnpmRegistryServer: https://evil.example\nplugins:\n  - path: ./plugin.cjs\n    spec: ./plugin.cjs\n",
  "plugin.cjs": "console.error('HOSTILE'); module.exports = { name: 'x', factory: () => ({}) };\n",
  "pip.py": hostilePython,
  "pip/__init__.py": hostilePython,
  "pip/__main__.py": hostilePython,
  "sitecustomize.py": hostilePython,
  "setup.py": hostilePython,
  "pip.conf": "[global]\nindex-url = https://evil.example/simple\n",
  "uv.toml": 'index-url = "https://evil.example/simple"\n',
  "requirements.txt": "left-pad==1.0.0\n",
  "go.mod": "module project\n\ngo 1.19\n\nrequire left.example/pad v1.0.0\n",
  "go.work": "go 1.19\nuse ./evil\n",
  "vendor/modules.txt": "# left.example/pad v1.0.0\n",
  "tools.go": "package project\n\n//go:generate ./evil.sh\n",
  "Cargo.toml":
    '[package]\nname = "project"\nversion = "1.0.0"\nbuild = "build.rs"\n\n[dependencies]\nleft-pad = "1"\n',
  "build.rs": 'fn main() { eprintln!("HOSTILE"); }\n',
  "src/main.rs": "fn main() {}\n",
  ".cargo/config.toml":
    '[build]\nrustc-wrapper = "/workspace/evil.sh"\nrustc = "/workspace/evil.sh"\n[registry]\nglobal-credential-providers = ["/workspace/evil.sh"]\n',
  "rust-toolchain.toml": '[toolchain]\npath = "/workspace/evil"\n',
  ".git-hooks/post-checkout": hostileScript,
};

/** Files that an earlier command may have left, in the tree and in the home folder. */
const leave = [
  'site=$(python3 -c "import site; print(site.getusersitepackages())"); mkdir -p "$site" ~/.config/{pip,uv,go,pnpm} ~/.cargo node_modules/.bin .venv/bin',
  `echo "import sys; sys.stderr.write('HOSTILE')" > "$site/left.pth"; cp "$site/left.pth" "$site/usercustomize.py"`,
  "for name in git node sh npm yarn pnpm rustc python3; do printf '#!/bin/sh\\necho HOSTILE >&2\\n' > node_modules/.bin/$name; chmod +x node_modules/.bin/$name; cp node_modules/.bin/$name .venv/bin/; done",
  "echo 'script-shell=/workspace/evil.sh' > ~/.npmrc; echo 'yarnPath: /workspace/evil.cjs' > ~/.yarnrc.yml; echo 'yarn-path \"/workspace/evil.cjs\"' > ~/.yarnrc",
  "echo 'GOFLAGS=-toolexec=/workspace/evil.sh' > ~/.config/go/env; printf '[build]\\nrustc-wrapper = \"/workspace/evil.sh\"\\n' > ~/.cargo/config.toml",
  "printf '[global]\\npython = /workspace/evil.sh\\n' > ~/.config/pip/pip.conf",
].join("\n");

if (!available) test.skip(`installing packages is not tested here: ${reason}`, () => undefined);

describe.skipIf(!available)("a package manager", () => {
  const inputs: Record<PackageManager, string> = {
    npm: "./package.json",
    pnpm: "./package.json",
    yarn: "./package.json",
    pip: "",
    uv: "./requirements.txt",
    go: "./go.mod",
    cargo: "./Cargo.toml ./src/main.rs",
  };

  test.each(managers.filter((name) => name !== "pip"))(
    "%s starts in a folder with manifests only and an empty home, without configuration",
    async (manager) => {
      const { call, sandbox } = await world({
        files: hostileTree,
        config: { install: "preApproved", registries: [registry.host] },
        services: { executors: recorded },
      });
      await call("run_code", { language: "bash", code: leave });

      const { value, error } = await call("install_package", { manager });
      const { stdout } = value as { stdout: string };

      expect(error).toBeUndefined();
      const written =
        "./.golem-left ./.venv/lib/left ./node_modules/left-pad/index.js ./package-lock.json ./planted.sh";
      const expected = [...written.split(" "), ...inputs[manager].split(" ")].sort().join(" ");
      expect(stdout).toContain(`folder: ${expected}\nhome: \n`);
      expect(stdout).toContain("env: TMPDIR=/home/golem/.tmp\n");
      const names = [...stdout.matchAll(/^env: (\w+)=/gm)].map(([, name]) => name ?? "");
      expect(
        names.filter((name) => /TOKEN|SECRET|PASSWORD|^NODE_(OPTIONS|PATH)$|^PYTHON(PATH|STARTUP)$/.test(name)),
      ).toEqual([]);
      expect(await sandbox.exists("planted.sh")).toBe(false);
      expect(await sandbox.exists("package-lock.json")).toBe(false);
    },
  );

  test.each([
    ["changes the lockfile of a project", { "package.json": "{}", "package-lock.json": "{}" }, true],
    ["writes the lockfile of a new project", { "README.md": "" }, true],
    ["adds no lockfile to a project without one", { "package.json": "{}" }, false],
    ["adds no lockfile to a workspace's package", { "package.json": "{}", "a/package.json": "{}" }, false],
  ])("npm %s", async (_, files: Record<string, string>, isWritten) => {
    const { call, sandbox } = await world({
      files,
      config: { install: "preApproved", registries: [registry.host] },
      services: { executors: recorded },
    });

    const { llmContent } = await call("install_package", { manager: "npm", packages: ["left-pad"] });

    const changed = (await sandbox.changes()).map(({ path }) => path);
    expect(changed).toEqual(isWritten ? ["package-lock.json"] : []);
    expect(/^Changed: (.*)$/m.exec(String(llmContent))?.[1]).toBe(isWritten ? "package-lock.json" : undefined);
    expect(llmContent).toContain("stderr: (nothing)");
  });

  test("a package manager keeps nothing of a failed installation", async () => {
    const { call, sandbox } = await world({
      files: { "package.json": "{}", "package-lock.json": '{"lockfileVersion":1}' },
      config: { install: "preApproved", registries: ["127.0.0.1"] },
    });
    await call("run_code", {
      language: "bash",
      code: "mkdir -p node_modules/mine; echo 1 > node_modules/mine/index.js",
    });

    const failed = await call("install_package", { packages: ["left-pad"] });
    const left = await call("run_code", { language: "bash", code: "ls node_modules" });

    expect(failed.llmContent).toMatch(/Exit code [1-9]/);
    expect(left.value).toMatchObject({ stdout: "mine\n" });
    expect(await sandbox.changes()).toEqual([]);
  });

  test("dependencies are not written through a link that an earlier command put in place of a folder", async () => {
    const { call } = await world({
      files: { "package.json": "{}", "packages/a/package.json": "{}" },
      config: { install: "preApproved", registries: [registry.host] },
      services: { executors: recorded },
    });
    const link = "rm -rf packages ~/go node_modules; ln -s /tmp packages; ln -s /tmp ~/go; ln -s /tmp node_modules";
    await call("run_code", { language: "bash", code: link });

    await call("install_package", { manager: "npm" });
    const left = await call("run_code", {
      language: "bash",
      code: "cat node_modules/left-pad/index.js; test -L node_modules",
    });

    expect(left.value).toMatchObject({ stdout: "installed\n", exitCode: 1 });
    expect(existsSync(join(tmpdir(), "left-pad"))).toBe(false);
  });
});

interface RealManager {
  manager: PackageManager;
  /** The program, where it is not among the system's; the test is skipped if there is none. */
  program?: string;
  files?: Record<string, string>;
  /** Uses the package without network. */
  use: string;
}

const requireLeftPad = "node -p 'require(\"left-pad\")'";
const realManagers: Record<string, RealManager> = {
  npm: { manager: "npm", use: requireLeftPad },
  pnpm: { manager: "pnpm", program: "pnpm/bin/pnpm.mjs", use: requireLeftPad },
  "Yarn 1": { manager: "yarn", program: "yarn/bin/yarn.js", use: requireLeftPad },
  "Yarn 4": {
    manager: "yarn",
    program: "@yarnpkg/cli-dist/bin/yarn.js",
    files: {
      "package.json": JSON.stringify({
        name: "project",
        packageManager: "yarn@4.9.0",
        dependencies: { "left-pad": "1.0.0" },
        // Allows its scripts regardless of the settings.
        dependenciesMeta: { "left-pad": { built: true } },
      }),
    },
    use: requireLeftPad,
  },
  pip: {
    manager: "pip",
    use: "python3 -W ignore -c 'import sys; import left_pad; print(1 if left_pad.pad() else 0)' 2>/dev/null",
  },
  Go: { manager: "go", program: "go", use: "ls ~/go/pkg/mod/left.example | grep -c pad" },
  Cargo: {
    manager: "cargo",
    program: "cargo",
    use: "cargo metadata --offline --format-version 1 > /dev/null 2>&1; ls ~/.cargo/registry/src/*/ | grep -c left-pad",
  },
};

/** Where the program is; undefined if this machine does not have it. */
function findProgram({ program }: RealManager): string | undefined {
  if (program === undefined) return "";
  const candidates = program.includes("/")
    ? [join(process.env.GOLEM_FORGE_TEST_NODE_MODULES ?? "/none", program)]
    : [...toolPaths, "/usr/local/go", "/usr/local/cargo", "/usr"].map((path) => join(path, "bin", program));
  // Cargo reads registries over HTTP since 1.68.
  const isOld = (path: string) =>
    program === "cargo" && /1\.([0-5]?\d|6[0-7])\./.test(`${execFileSync(path, ["--version"])}`);
  return candidates.find((path) => existsSync(path) && !isOld(path));
}

describe.skipIf(!available)("a real package manager", () => {
  test.for(Object.entries(realManagers))(
    "%s installs packages of a hostile repository and runs none of its code",
    async ([, chosen], { skip }) => {
      const program = findProgram(chosen);
      if (program === undefined) return skip(`${chosen.program} is not on this machine`);
      const { manager } = chosen;
      if (manager === "go" && registry.host.startsWith("localhost")) return skip("Go uses no proxy for localhost");
      const folder = mkdtempSync("/var/tmp/tools-");
      chmodSync(folder, 0o755);
      writeFileSync(join(folder, "certificate.pem"), registry.certificate, { mode: 0o644 });
      const modules = process.env.GOLEM_FORGE_TEST_NODE_MODULES;
      if (program.includes("node_modules")) {
        writeFileSync(join(folder, manager), `#!/bin/sh\nexec node ${program} "$@"\n`, { mode: 0o755 });
      }
      const executors = createExecutors({
        os: { toolPaths: [folder, ...toolPaths, ...(modules ? [modules] : [])], privateRegistries: [registry.host] },
      });
      onTestFinished(async () => {
        await executors.close();
        rmSync(folder, { recursive: true });
      });
      const index = `https://${registry.host}/`;
      const { call, sandbox } = await world({
        files: { ...hostileTree, ...chosen.files },
        config: { install: "preApproved", indexes: { [manager]: manager === "pip" ? `${index}simple` : index } },
        services: { executors: trusting(executors, join(folder, "certificate.pem")) },
      });
      const before = Object.keys(hostileTree).map((path) => sandbox.text(path));
      await call("run_code", { language: "bash", code: leave });

      const installed = await call("install_package", { manager });
      const used = await call("run_code", {
        language: "bash",
        code: `rm -f sitecustomize.py pip.py; rm -rf vendor .cargo rust-toolchain.toml; ${chosen.use}`,
      });

      expect(installed.llmContent).toMatch(/^Exit code 0 /);
      expect(JSON.stringify(installed)).not.toContain("HOSTILE");
      expect((used.value as { stdout: string }).stdout).toBe("1\n");
      expect(before).not.toContain(undefined);
    },
  );
});

/** The executors of this machine, with clients that trust the certificate of the registry. */
function trusting(executors: Executors, certificate: string): Executors {
  const names = ["NODE_EXTRA_CA_CERTS", "PIP_CERT", "SSL_CERT_FILE", "CARGO_HTTP_CAINFO"];
  const trusted = { ...Object.fromEntries(names.map((name) => [name, certificate])), GONOSUMDB: "*" };
  return {
    ...executors,
    async openSession(tier, key) {
      const session = await executors.openSession(tier, key);
      return {
        tier,
        close: () => session.close(),
        exec: (tree, request) =>
          session.exec(tree, request.isolated ? { ...request, env: { ...request.env, ...trusted } } : request),
      };
    },
  };
}

describe("installing packages", () => {
  const textOf = () => undefined;

  test.each<[PackageManager, string[]]>([
    ["npm", ["https://evil.example/x.tgz"]],
    ["npm", ["git+ssh://git@host/x"]],
    ["npm", ["../x"]],
    ["npm", ["--registry=http://evil"]],
    ["npm", ["user/repo"]],
    ["npm", ["x@file:../y"]],
    ["npm", ["x@https://evil.example/y"]],
    ["npm", ["x; rm -rf /"]],
    ["pip", ["-r", "x"]],
    ["pip", ["git+https://evil/x"]],
    ["pip", ["x @ https://evil/x"]],
    ["pip", ["./x"]],
    ["pip", ["evil.tar.gz"]],
    ["pip", ["evil-1.0-py3-none-any.whl"]],
    ["npm", ["evil.tgz"]],
    ["npm", ["x\n--git=./evil"]],
    ["go", ["-exec=x"]],
    ["cargo", ["--git"]],
  ])("%s never installs %j", (manager, packages) => {
    expect(() => installCommand({ manager, packages, dev: false, textOf })).toThrow("is not a package of a registry");
  });

  test.each<[PackageManager, string[], string]>([
    [
      "npm",
      ["left-pad", "@scope/x@^1.2.0"],
      "npm install --ignore-scripts --git=/bin/false --no-audit --no-fund -- left-pad @scope/x@^1.2.0",
    ],
    [
      "pip",
      ["requests>=2,<3", "uvicorn[standard]==0.1"],
      "python3 -I -m pip install --user --only-binary=:all: --no-input --disable-pip-version-check -- requests>=2,<3 uvicorn[standard]==0.1",
    ],
    ["go", ["golang.org/x/text@v0.1.0"], "go get golang.org/x/text@v0.1.0"],
    ["cargo", ["serde"], 'bash -c "$@" && exec cargo fetch bash cargo add serde'],
  ])("%s installs %j without scripts", (manager, packages, expected) => {
    expect(installCommand({ manager, packages, dev: false, textOf }).command.join(" ")).toBe(expected);
  });

  test("Yarn builds no package, even if a manifest allows its scripts", () => {
    const berry = (name: string) => (name === "yarn.lock" ? "__metadata:\n  version: 8\n" : undefined);

    for (const packages of [[], ["left-pad"]]) {
      const { command } = installCommand({ manager: "yarn", packages, dev: false, textOf: berry });
      expect(command).toContain("--mode=skip-build");
    }
  });

  test.each([
    "-e .",
    "./evil",
    ".",
    "evil.tar.gz",
    "git+https://github.com/a/b",
    "x @ https://evil.example/x.zip",
    "https://evil.example/x.whl",
    "--no-binary=:all:",
    "--index-url https://evil.example",
    "-r more.txt",
    "requests --config-settings=a=b",
    "requests; python_version > '3' --global-option=x",
    "requests \\\n  --no-binary=:all:",
  ])("a requirements.txt with %j installs nothing", async (line) => {
    const { preview } = await world({ files: { "requirements.txt": `# ours\nflask==3.0\n${line}\n` } });

    await expect(preview("install_package", {})).rejects.toMatchObject({ code: "DENIED" });
  });

  test.each<[string, string]>([
    ["package.json", '{ "dependencies": { "x": "exec:./gen.patch" } }'],
    ["packages/a/package.json", '{ "resolutions": { "x": "\\u0065xec:./gen.patch" } }'],
    ["package.json", '{ "devDependencies": { "x": "patch:x@%2565xec%253A./gen.patch#./a.patch" } }'],
    ["yarn.lock", '__metadata:\n  version: 8\n"x@npm:^1.0.0":\n  resolution: "x@\\x65xec:./gen.patch#./gen.patch"\n'],
    ["package.json", `{ "dependencies": { "x": "patch:x@%${"25".repeat(1_000)}65xec" } }`],
    ["left-pad.patch", '+  "dependencies": { "x": "exec:./added.js" },\n'],
  ])("a %s that makes Yarn run a program of the repository installs nothing: %s", async (path, text) => {
    const { preview } = await world({ files: { "package.json": "{}", "yarn.lock": "", [path]: text } });

    await expect(preview("install_package", {})).rejects.toMatchObject({ code: "DENIED" });
  });

  test("a script named exec: keeps Yarn from nothing", async () => {
    const manifest = { scripts: { "exec:all": "npm run exec:one" }, dependencies: { exec: "^1.0.0" } };
    const { preview } = await world({ files: { "package.json": JSON.stringify(manifest), "yarn.lock": "" } });

    expect(await preview("install_package", {})).toContain("yarn install");
  });

  test("a requirements.txt of names, versions, markers and hashes is installed unchanged", async () => {
    const lines = [
      "# ours",
      "flask==3.0  # web",
      "requests[socks, security] >= 2, < 3 ; python_version < '3.13' and sys_platform != 'win32'",
      `click==8.1 \\\n    --hash=sha256:${"a1".repeat(32)} \\\n    --hash=sha256:${"b2".repeat(32)}`,
      "",
    ];
    const { preview } = await world({ files: { "requirements.txt": lines.join("\n") } });

    expect(await preview("install_package", {})).toContain("--only-binary=:all:");
  });

  test.each<[string[], string, PackageManager | undefined]>([
    [["package.json"], "", "npm"],
    [["package.json", "pnpm-lock.yaml"], "", "pnpm"],
    [["packages/a/package.json", "package.json", "pnpm-workspace.yaml"], "packages/a", "pnpm"],
    [["packages/a/package.json", "package.json", "yarn.lock"], "packages/a", "yarn"],
    [["go.mod"], "", "go"],
    [["Cargo.toml"], "", "cargo"],
    [["pyproject.toml", "uv.lock"], "", "uv"],
    [["pyproject.toml"], "", "pip"],
    [["requirements.txt"], "", "pip"],
    [["README.md", "a/go.mod"], "", undefined],
  ])("the files %j, seen from the folder %j, belong to %s", async (paths, folder, manager) => {
    const files = Object.fromEntries(paths.map((path) => [path, ""]));

    expect(await findManager(memoryWorkspace(files), folder)).toBe(manager);
  });

  test("of an .npmrc, the package manager receives the settings that a lockfile depends on", async () => {
    const npmrc = [
      "# comment",
      "auto-install-peers = false\r",
      "legacy-peer-deps=true",
      "public-hoist-pattern[]=*eslint*",
      "registry=https://evil.example/",
      "//evil.example/:_authToken=x",
      "script-shell=evil",
      ["node-linker=$", "{SECRET}"].join(""),
      '"auto-install-peers"=x',
      "hoist-pattern=a b",
      "[auto-install-peers]",
    ];
    const workspace = memoryWorkspace({ "package.json": "{}", ".npmrc": npmrc.join("\n"), "yarn.lock": "" });
    const received = async (manager: PackageManager) => {
      const { isolated } = await installFiles(workspace, manager, "");
      const file = isolated.files.find(({ path }) => path === ".npmrc");
      return file && Buffer.from(file.content).toString();
    };

    const settings = "auto-install-peers=false\nlegacy-peer-deps=true\npublic-hoist-pattern[]=*eslint*\n";
    expect([await received("npm"), await received("pnpm")]).toEqual([settings, settings]);
    expect(await received("yarn")).toBeUndefined();
  });

  test("of a pnpm-workspace.yaml, pnpm receives the settings that a lockfile depends on", async () => {
    const settings =
      "packages: [packages/*]\ncatalog:\n  left-pad: 1.0.0\npnpmfile: evil.cjs\nregistry: https://evil.example\n";
    const workspace = memoryWorkspace({ "package.json": "{}", "pnpm-workspace.yaml": settings });

    const { isolated } = await installFiles(workspace, "pnpm", "");

    const file = isolated.files.find(({ path }) => path === "pnpm-workspace.yaml");
    expect(JSON.parse(Buffer.from(file?.content ?? "").toString())).toEqual({
      packages: ["packages/*"],
      catalog: { "left-pad": "1.0.0" },
    });
  });

  test("the approval is bound to the manifests and lockfiles", async () => {
    const { tool, sandbox } = await world({ files: { "package.json": "{}" } });
    const bindings = async () => {
      const preview = await tool("install_package").preview?.({ packages: [], dev: false }, toolContext({ sandbox }));
      return (preview as { bindings: unknown }).bindings;
    };

    const before = await bindings();
    await sandbox.write("package.json", '{"name":"other"}');

    expect(await bindings()).not.toEqual(before);
  });

  test("a lockfile is installed unchanged", () => {
    expect(
      installCommand({
        manager: "npm",
        packages: [],
        dev: false,
        textOf: (name) => (name === "package-lock.json" ? "{}" : undefined),
      }).command.slice(0, 2),
    ).toEqual(["npm", "ci"]);
  });

  test("no release of pnpm starts the version that the repository names", () => {
    const index = "https://npm.example.com/";
    const request = { manager: "pnpm", packages: [], dev: false, index, textOf: () => undefined } as const;

    expect(installCommand(request).env).toMatchObject({
      npm_config_manage_package_manager_versions: "false",
      pnpm_config_pm_on_fail: "ignore",
      npm_config_registry: index,
      pnpm_config_registry: index,
    });
  });

  test.each(["npm", "pnpm"] as const)("%s tries a host that cannot be reached again within seconds", (manager) => {
    const { env } = installCommand({ manager, packages: [], dev: false, textOf: () => undefined });

    expect(env).toMatchObject({ npm_config_fetch_retries: "2", npm_config_fetch_retry_maxtimeout: "3000" });
  });

  test("the packages of a pyproject.toml and of its groups for development are installed, plain names only", async () => {
    const pyproject = [
      "[project]",
      "dependencies = [",
      '  "click >= 8.1, < 9; python_version > \'3\'", # "not-this"',
      '  "evil @ https://evil.example/x.whl", "./evil", "--index-url=x",',
      "]",
      'classifiers = ["Typing :: Typed"]',
      "[project.optional-dependencies]",
      'test = ["pytest", "uvicorn[standard]"]',
      'docs = ["sphinx"]',
      "[dependency-groups]",
      'dev = [{ include-group = "lint" }, "ruff==0.1"]',
    ].join("\n");
    const { preview } = await world({ files: { "pyproject.toml": pyproject } });

    expect(await preview("install_package", {})).toMatch(/-- click>=8\.1,<9 pytest uvicorn\[standard\] ruff==0\.1$/m);
  });

  test.each([
    [{ Gemfile: "gemspec" }, "`setup: [bundle install]`"],
    [{ "pyproject.toml": "[tool.poetry]", "poetry.lock": "" }, "`setup: [poetry install]`"],
  ])("with %j, the model is told to add a setup command", async (files, suggestion) => {
    const { preview } = await world({ files: files as Record<string, string> });

    await expect(preview("install_package", {})).rejects.toMatchObject({
      code: "UNAVAILABLE",
      suggestion: expect.stringContaining(suggestion),
    });
  });

  test("installing packages asks unless the worker's settings allow it, and shows the command", async () => {
    const { asks, preview } = await world({ files: { "package.json": "{}" } });

    expect(await asks("install_package", { packages: ["left-pad"] })).toBe(true);
    expect(await preview("install_package", { packages: ["left-pad"] })).toContain("npm install --ignore-scripts");
    await expect((await world({ config: { install: "blocked" } })).asks("install_package", {})).rejects.toThrow(
      "may not install packages",
    );
    expect(await (await world({ config: { install: "preApproved" } })).asks("install_package", {})).toBe(false);
  });
});
