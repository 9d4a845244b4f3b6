import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { createExecutors, type Executors } from "#executors/create-executors.ts";
import { SetupCache } from "#executors/os/setup-cache.ts";
import { codeToolset } from "#toolsets/registry.ts";
import { memoryWorkspace } from "../../support/memory-workspace.ts";
import { startSandboxWorld } from "../../support/sandbox-world.ts";
import { runSpec, toolsetWorld } from "../../support/toolset-world.ts";

const directory = mkdtempSync("/var/tmp/golem-setups-test-");
chmodSync(directory, 0o711);
const setups = new SetupCache(join(directory, "setups"));
// A path with a space cannot be mounted as an overlay, so this tests a machine without overlays.
const readOnly = createExecutors({ os: { directory, setups: new SetupCache(join(directory, "read only")) } });
const tools = join(directory, "tools");
mkdirSync(join(tools, "bin"), { recursive: true });
writeFileSync(join(tools, "bin/yarn"), "#!/bin/sh\necho 4.9.1\n", { mode: 0o755 });
const overlays = createExecutors({ os: { directory, setups, toolPaths: [tools] } });
const { available, reason } = await overlays.availability("os");
await readOnly.availability("os");
afterAll(async () => {
  await Promise.all([overlays.close(), readOnly.close()]);
  rmSync(directory, { recursive: true, force: true });
});
if (!available) test.skip(`the setup is not tested here: ${reason}`, () => undefined);

/** A folder of this machine that a setup tries to take. */
const outside = join(directory, "outside");
mkdirSync(join(outside, "repository"), { recursive: true });
const setup = [
  `ln -s ${outside} ~/.m2`,
  "mkdir -p node_modules/dep packages/a/node_modules/own ~/.local/lib built",
  'cat package-lock.json marker > node_modules/dep/index.js; echo "$(git log --format=%s)" > node_modules/dep/commit',
  "mkdir $npm_config_store_dir; echo > $pnpm_config_store_dir/file; ln .pnpm-store/file node_modules/dep/linked",
  "echo own > packages/a/node_modules/own/index.js; echo local > ~/.local/lib/local; echo lost > built/lost",
];
const files = {
  ".gitignore": "node_modules\n",
  "package-lock.json": "v1 ",
  "packages/a/package.json": "{}",
  marker: "default branch\n",
};

let runs = 0;
async function run({
  branch = "main",
  changes = {},
  commands = setup,
  repositoryId = 7,
  executors = overlays,
}: {
  branch?: "main" | "feature";
  changes?: Record<string, string>;
  commands?: string[];
  repositoryId?: number;
  executors?: Executors;
} = {}) {
  runs += 1;
  const id = `setup-run-${runs}`;
  const sandbox = Object.assign(memoryWorkspace(files), { isOnDefaultBranch: branch === "main" });
  for (const [path, text] of Object.entries(changes)) await sandbox.write(path, text);
  const worker = { ...runSpec.worker, setup: commands };
  const spec = { ...runSpec, id, rootId: id, worker, origin: { ...runSpec.origin, repositoryId } };
  const world = await toolsetWorld(codeToolset, { sandbox, services: { executors, spec } });
  return {
    ...world,
    bash: async (code: string) => (await world.call("run_code", { language: "bash", code })).llmContent,
  };
}
const read = "cat node_modules/dep/index.js packages/a/node_modules/own/index.js ~/.local/lib/local; ls built";

describe.skipIf(!available)("setup commands of a project", () => {
  test.each([
    ["in an overlay", overlays],
    ["read-only", readOnly],
  ])(
    "the setup commands of a project run once for the lockfiles of the default branch; other runs read what they installed and cannot change it, %s",
    async (_, executors) => {
      const first = await run({ executors, changes: { marker: "changed by the run\n", "hook.sh": "echo hostile\n" } });
      expect(await first.bash(read)).toContain("No such file");
      expect(await first.asks("install_package", {})).toBe(true);
      expect(await first.preview("install_package", {})).toContain("They run on the files of the default branch.");

      const installed = await first.call("install_package", {});

      expect(installed.llmContent).toContain("Exit code 0");
      // pnpm's store, into which node_modules has links, is not kept.
      expect(await first.bash("stat -c %h node_modules/dep/linked; ls -d .pnpm-store")).toMatch(
        /stdout:\n1\n.*\n.*No such/,
      );
      expect(readdirSync(outside)).toEqual(["repository"]);
      expect(first.sandbox.text("marker")).toBe("changed by the run\n");
      // A run of another branch that does all it can, with the same lockfiles.
      const branch = await run({ executors, branch: "feature" });
      expect(await branch.asks("install_package", {})).toBe(false);
      const attack = [
        read,
        "for file in node_modules/dep/index.js ~/.local/lib/local; do echo poison > $file; chmod 777 $file; rm -f $file; done",
        "rm -rf node_modules packages/a/node_modules ~/.local; mv node_modules old; mkdir -p node_modules/dep",
        "ln -sfn /tmp node_modules/link; umount node_modules; mount --bind /tmp node_modules; echo poison > node_modules/poison",
        "mkdir -p node_modules/.cache; echo cache > node_modules/.cache/file; cat node_modules/.cache/file",
      ];
      expect(await branch.bash(attack.join("\n"))).toContain("stdout:\nv1 default branch\nown\nlocal\ncache\nstderr:");
      const later = await run({ executors });
      const seen = await later.bash(`${read}; ls -A node_modules; cat node_modules/poison node_modules/.cache/file`);
      expect(seen).toMatch(
        /stdout:\nv1 default branch\nown\nlocal\n(\.cache\n\.vite\n\.vite-temp\n\.vitest\n)?dep\nstderr/,
      );
      expect((await later.call("install_package", {})).llmContent).toContain("an earlier run prepared them");
      const reads = vi.spyOn(later.sandbox, "readBytes");
      expect(await later.bash(read)).toContain("stdout:\nv1 default branch\n");
      expect(reads).not.toHaveBeenCalled();
      await later.sandbox.write("package-lock.json", "v3 ");
      expect(await later.bash(read)).toContain("No such file");
      expect(await (await run({ executors, repositoryId: 8 })).bash(read)).toContain("No such file");
    },
  );

  test("setup commands with a branch's lockfiles are asked for each time, and what they install stays in the run", async () => {
    const lockfile = { "package-lock.json": "v2 " };
    const changed = await run({ changes: { ...lockfile, "hook.sh": "exit\n" } });
    expect(await changed.asks("install_package", {})).toBe(true);
    const asked = await changed.preview("install_package", {});
    expect(asked).toContain("kept for this run only");
    expect(asked).toContain("added: hook.sh");

    await changed.call("install_package", {});

    expect(await changed.bash(read)).toContain("stdout:\nv2 default branch\nown\nlocal\n");
    const other = await run({ changes: lockfile });
    expect(await other.bash(read)).toContain("No such file");
    expect(await other.asks("install_package", {})).toBe(true);
  });

  test.each([
    ["yarn.lock", "async"],
    ["other.lock", ""],
  ])("the setup commands of a project make Yarn 4 use less memory if there is a %s: %j", async (lockfile, mode) => {
    const commands = ['mkdir node_modules; echo "mode: $YARN_TASK_POOL_MODE." > node_modules/seen'];
    const world = await run({ commands, branch: "feature", changes: { [lockfile]: "" } });

    await world.call("install_package", {});

    expect(await world.bash("cat node_modules/seen")).toContain(`mode: ${mode}.`);
  });

  test("the setup commands of a project find the repository's links, and share nothing with other runs once a merge has changed one", async () => {
    const git = await startSandboxWorld();
    onTestFinished(() => git.close());
    const repository = await git.repositoryWith({});
    const files = { "shared/a.txt": "shared\n", "evil/a.txt": "evil\n", app: { link: "shared" } };
    const parent = await repository.commit({ files });
    await repository.commit({ files: { app: { link: "evil" } }, branch: "hostile", parent });
    const worker = { ...runSpec.worker, setup: ["mkdir node_modules; cat app/a.txt > node_modules/seen"] };
    const spec = {
      ...runSpec,
      id: "setup-links",
      rootId: "setup-links",
      worker,
      origin: { ...runSpec.origin, repositoryId: 9 },
    };
    const sandbox = await git.open(repository);
    const world = await toolsetWorld(codeToolset, { sandbox, services: { executors: overlays, spec } });
    expect(await world.preview("install_package", {})).toContain("They run on the files of the default branch.");
    await world.call("install_package", {});
    const { llmContent } = await world.call("run_code", { language: "bash", code: "cat node_modules/seen" });
    expect(llmContent).toContain("stdout:\nshared\n");

    await sandbox.mergeBranch("hostile");

    expect(await world.preview("install_package", {})).toContain("kept for this run only");
  });
});
