import { z } from "zod";
import { BlockedError, ToolError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { commandResult, runCommand } from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";
import { findManager, type InstallCommand, installCommand, managers } from "./install-command.ts";
import { findUnsupportedRequirement } from "./unsupported-requirement.ts";

const inputSchema = z.object({
  packages: z
    .array(z.string())
    .max(50)
    .default([])
    .describe("Names with optional versions; none: what the project's files list"),
  manager: z.enum(managers).optional().describe("Default: by the files of the project"),
  dev: z.boolean().default(false).describe("For development only"),
  path: z.string().optional().describe("The folder of the project; default: the root of the repository"),
});
type Input = z.infer<typeof inputSchema>;

const timeoutMs = 5 * 60_000;

export function createInstallPackageTool(settings: CodeConfig, services: ToolServices): NamedTool<Input> {
  const decision = settings.install;

  function needsApproval(): boolean {
    if (decision === "blocked") throw new BlockedError("install_package", "this worker may not install packages");
    return decision === "ask";
  }

  return {
    name: "install_package",
    description:
      "Install packages into the sandbox, as a phase of its own: network to the package registry alone, install scripts off, and no network again afterwards. What is installed serves run_tests, run_code and format_code; of the repository only manifests and lock files change.",
    inputSchema,
    needsApproval,
    manualExecution: { mode: "both", label: "Install packages", category: "Development" },
    approvalReason: ({ packages }) => {
      const what = packages.length > 0 ? packages.join(", ") : "the project's packages";
      return `The worker wants to install ${what} into its sandbox, which opens it to the package registry meanwhile.`;
    },
    preview: async (input) => (await plan(input, services)).install.command.join(" "),
    execute: (input, context) => {
      needsApproval();
      return execute(input, context, settings, services);
    },
  };
}

async function plan({ packages, manager, dev, path = "" }: Input, { workspace }: ToolServices) {
  const folder = workspace.resolve(path);
  const chosen = manager ?? (await findManager(workspace, folder));
  if (!chosen) {
    throw new ToolError(`Nothing in ${folder || "the repository"} says which package manager it uses.`, {
      code: "INVALID_ARGUMENTS",
      suggestion: `Give the manager: ${managers.join(", ")}.`,
    });
  }
  const present = new Set(await workspace.paths());
  const inFolder = (name: string) => (folder === "" ? name : `${folder}/${name}`);
  if (chosen === "pip" && packages.length === 0)
    await checkRequirements(inFolder("requirements.txt"), present, workspace);
  const install = installCommand({ manager: chosen, packages, dev, has: (name) => present.has(inFolder(name)) });
  return { folder, install, manifests: new Set(install.manifests.map(inFolder)) };
}

async function checkRequirements(path: string, present: ReadonlySet<string>, workspace: Workspace): Promise<void> {
  if (!present.has(path)) return;
  const strange = findUnsupportedRequirement(Buffer.from(await workspace.read(path)).toString("utf8"));
  if (strange === undefined) return;
  throw new ToolError(
    `${path} asks for more than packages of the registry: ${JSON.stringify(strange.slice(0, 200))}.`,
    {
      code: "DENIED",
      suggestion: "Name the packages that are needed; options, URLs and paths are not taken.",
    },
  );
}

async function execute(input: Input, context: ToolContext, settings: CodeConfig, services: ToolServices) {
  const { folder, install, manifests } = await plan(input, services);
  const ran = await runCommand(services, {
    tier: settings.tier,
    request: {
      command: install.command,
      env: install.env,
      cwd: folder,
      timeoutMs,
      outputBytes: settings.output_bytes,
      network: hostsFor(install, settings),
      signal: context.abortSignal,
      onOutput: (_, chunk) => context.output(chunk),
    },
    isApproved: (path) => manifests.has(path),
  });
  return commandResult(ran, install.command.join(" "));
}

function hostsFor({ hosts }: InstallCommand, { registries }: CodeConfig): string[] {
  return registries ?? hosts;
}
