import { createHash } from "node:crypto";
import { posix } from "node:path";
import { z } from "zod";
import { BlockedError, ToolError } from "#domain/errors.ts";
import { type Preview, textPreview } from "#domain/preview.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { quoted } from "#text/visible-text.ts";
import { baseFiles, findSetup, type ProjectSetup, presentFiles } from "#toolsets/project-setup.ts";
import {
  commandResult,
  executorsOf,
  type FinishedCommand,
  previewUsedChanges,
  runCommand,
} from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";
import {
  describeMissingProgram,
  endOfInstallation,
  installCommand,
  limitYarnMemory,
  packageRequirementsOf,
  registryHosts,
} from "./install-command.ts";
import { findManager, installFiles, managers, type PackageManager } from "./install-files.ts";

const inputSchema = z.object({
  packages: z
    .array(z.string())
    .max(50)
    .default([])
    .describe("Names with optional versions; default: all that the project lists"),
  manager: z.enum(managers).optional(),
  dev: z.boolean().optional(),
  path: z.string().optional().describe("Its folder; default: the root"),
});
type Input = z.infer<typeof inputSchema>;

const timeoutMs = 5 * 60_000;
/** A project's setup commands may also compile what they install. */
const setupTimeoutMs = 20 * 60_000;

export function createInstallPackageTool(settings: CodeConfig, services: ToolServices): NamedTool<Input> {
  const decision = settings.install;

  async function needsApproval(input: Input): Promise<boolean> {
    if (decision === "blocked") throw new BlockedError("install_package", "this worker may not install packages");
    if (decision !== "ask") return false;
    const setup = await setupFor(input, settings, services);
    return !setup || !isApproved(setup, services);
  }

  return {
    name: "install_package",
    description:
      "Install the project's packages, or the named ones, from their registries. In the repository, only manifests and lockfiles change.",
    inputSchema,
    needsApproval,
    manualExecution: { mode: "both", label: "Install packages", category: "Development" },
    approvalReason: ({ packages }) => {
      const what = packages.length > 0 ? packages.map(quoted).join(", ") : "the project's packages";
      return `The worker wants to install ${what} into its sandbox. While it runs, the package manager can connect to its registry.`;
    },
    preview: (input) => previewInstall(input, settings, services),
    execute: async (input, context) => {
      await needsApproval(input);
      const setup = await setupFor(input, settings, services);
      return setup ? executeSetup(setup, context, settings, services) : execute(input, context, settings, services);
    },
  };
}

/** Returns the project's setup commands if the call asks for all of its packages. */
async function setupFor(
  { packages, manager, path }: Input,
  { tier }: CodeConfig,
  services: ToolServices,
): Promise<ProjectSetup | undefined> {
  const isWhole = packages.length === 0 && manager === undefined && (path === undefined || path === ".");
  return isWhole && tier === "os" ? findSetup(services) : undefined;
}

/** True if the setup needs no approval. On the default branch it is approved once per set of lockfiles, elsewhere each time. */
function isApproved({ key, isOfDefaultBranch }: ProjectSetup, services: ToolServices): boolean {
  const { setups } = executorsOf(services);
  return setups?.find(key) !== undefined || (isOfDefaultBranch && setups?.isApproved(key) === true);
}

function setupHosts({ registries, indexes }: CodeConfig): string[] {
  return [...(registries ?? registryHosts), ...Object.values(indexes).map((index) => new URL(index).host)];
}

async function previewSetup(
  { commands, key, isOfDefaultBranch }: ProjectSetup,
  settings: CodeConfig,
  services: ToolServices,
): Promise<Preview> {
  const section = (title: string, text: string) => textPreview(text, title).sections;
  const use = isOfDefaultBranch
    ? "They run on the files of the default branch. What they install is kept for all runs with the same lockfiles."
    : "They run on the files of this run, including their install scripts. What they install is kept for this run only.";
  const used = isOfDefaultBranch ? { sections: [], bindings: {} } : await previewUsedChanges(services);
  return {
    sections: [
      ...section("Setup commands", commands.join("\n")),
      ...section("Hosts they can reach", setupHosts(settings).join("\n")),
      ...section("Files", use),
      ...used.sections,
    ],
    bindings: { "setup commands and lockfiles": key, ...used.bindings },
  };
}

/** The home folder is another mount, into which pnpm cannot link: every package would be on disk twice, and in the cache. */
const pnpmStore = "/workspace/.pnpm-store";

/** Runs before the setup commands. */
const setupStart = [
  `trap 'rm -rf ${pnpmStore}' EXIT`,
  `if [ -f yarn.lock ]; then ${limitYarnMemory("$(yarn --version 2> /dev/null)")}; fi`,
];

async function executeSetup(
  { commands, key, isOfDefaultBranch }: ProjectSetup,
  context: ToolContext,
  settings: CodeConfig,
  services: ToolServices,
): Promise<ToolResult> {
  const { workspace } = services;
  const { setups } = executorsOf(services);
  if (setups?.find(key)) {
    const text = "The project's packages are installed: an earlier run prepared them with the same lockfiles.";
    return { llmContent: text, value: { kind: "text", content: text } };
  }
  if (isOfDefaultBranch) setups?.approve(key);
  const files = isOfDefaultBranch ? await baseFiles(workspace) : await presentFiles(workspace);
  const ran = await runCommand(services, {
    settings,
    context,
    command: ["bash", "-e", "-o", "pipefail", "-c", [...setupStart, ...commands].join("\n")],
    env: {
      GOPROXY: "https://proxy.golang.org",
      GOFLAGS: "-modcacherw",
      npm_config_store_dir: pnpmStore,
      pnpm_config_store_dir: pnpmStore,
    },
    timeoutMs: setupTimeoutMs,
    network: setupHosts(settings),
    isolated: {
      files,
      results: new Set(),
      keep: { tree: [], home: [] },
      keepDependencies: isOfDefaultBranch ? { key } : "session",
    },
  });
  return withMissingProgram(ran, "setup commands");
}

/** Package managers whose packages only a setup installs, since their manifests are programs or in their own format. */
const otherManagers = [
  { file: "Gemfile", name: "Bundler", command: "bundle install" },
  { file: "poetry.lock", name: "Poetry", command: "poetry install" },
  { file: "bun.lock", name: "Bun", command: "bun install" },
  { file: "Pipfile", name: "Pipenv", command: "pipenv install --dev" },
  { file: "composer.json", name: "Composer", command: "composer install" },
];

async function refuseOtherManagers(workspace: Workspace, folder: string, chosen: PackageManager | undefined) {
  const has = (name: string) => workspace.exists(posix.join(folder, name));
  if (chosen !== undefined && (chosen !== "pip" || (await has("requirements.txt")))) return;
  const pyproject = (await has("pyproject.toml")) ? await workspace.read(posix.join(folder, "pyproject.toml")) : "";
  if (packageRequirementsOf(pyproject).length > 0) return;
  for (const { file, name, command } of otherManagers) {
    if (!(await has(file))) continue;
    throw new ToolError(`This project uses ${name}, which install_package does not run.`, {
      code: "UNAVAILABLE",
      suggestion: `People can add \`setup: [${command}]\` to the worker's file or the repository's settings. Continue without these packages, or name the ones that are needed.`,
    });
  }
}

async function plan(
  { packages, manager, dev = false, path = "" }: Input,
  settings: CodeConfig,
  { workspace }: ToolServices,
) {
  const folder = workspace.resolve(path);
  const chosen = manager ?? (await findManager(workspace, folder));
  if (packages.length === 0 && manager === undefined) await refuseOtherManagers(workspace, folder, chosen);
  if (!chosen) {
    throw new ToolError(`No file in ${folder || "the repository"} belongs to a package manager.`, {
      code: "INVALID_ARGUMENTS",
      suggestion: `Give the manager: ${managers.join(", ")}.`,
    });
  }
  const { isolated, textOf } = await installFiles(workspace, chosen, folder);
  const install = installCommand({ manager: chosen, packages, dev, index: settings.indexes[chosen], textOf });
  // If the folder has no files, the sandbox does not have the folder either.
  const cwd = isolated.files.some((file) => file.path.startsWith(`${folder}/`)) ? folder : "";
  const settingsFiles = Object.entries(install.files ?? {}).map(([path, text]) => {
    return { path, content: Buffer.from(text), executable: false };
  });
  return { cwd, install, isolated: { ...isolated, files: [...isolated.files, ...settingsFiles] } };
}

async function previewInstall(input: Input, settings: CodeConfig, services: ToolServices): Promise<Preview> {
  const setup = await setupFor(input, settings, services);
  if (setup) return previewSetup(setup, settings, services);
  const { install, isolated } = await plan(input, settings, services);
  const digest = createHash("sha256");
  for (const { path, content } of isolated.files) digest.update(`${path}\0${content.length}\0`).update(content);
  const preview = textPreview(install.command.join(" "));
  return { ...preview, bindings: { "manifests and lockfiles": digest.digest("hex") } };
}

async function execute(input: Input, context: ToolContext, settings: CodeConfig, services: ToolServices) {
  const { cwd, install, isolated } = await plan(input, settings, services);
  const ran = await runCommand(services, {
    settings,
    context,
    command: install.command,
    env: install.env,
    cwd,
    timeoutMs,
    network: settings.registries ?? install.hosts,
    isolated,
    isApproved: (path) => isolated.results.has(path),
  });
  return withMissingProgram(ran, install.command.join(" "));
}

/** The lines that say how an installation ended. */
const maxEndLines = { succeeded: 3, failed: 30 };

function withMissingProgram(ran: FinishedCommand, command: string): ToolResult {
  const { exitCode, stdout, stderr } = ran.result;
  const maxLines = exitCode === 0 ? maxEndLines.succeeded : maxEndLines.failed;
  const short = {
    ...ran.result,
    stdout: endOfInstallation(stdout, maxLines),
    stderr: endOfInstallation(stderr, maxLines),
  };
  const { llmContent } = commandResult({ ...ran, result: short }, command);
  const missing = describeMissingProgram(ran.result);
  return { ...commandResult(ran, command), llmContent: missing ? `${missing}\n${llmContent}` : llmContent };
}
