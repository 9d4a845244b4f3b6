import { createHash } from "node:crypto";
import { z } from "zod";
import { BlockedError, ToolError } from "#domain/errors.ts";
import { type Preview, textPreview } from "#domain/preview.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { commandResult, runCommand } from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";
import { describeMissingProgram, installCommand } from "./install-command.ts";
import { findManager, installFiles, managers } from "./install-files.ts";

const inputSchema = z.object({
  packages: z
    .array(z.string())
    .max(50)
    .default([])
    .describe("Names with optional versions; default: the packages that the project's files list"),
  manager: z.enum(managers).optional().describe("Default: determined by the files of the project"),
  dev: z.boolean().default(false).describe("Add them as development dependencies"),
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
      "Install packages into the sandbox with npm, pnpm, Yarn, pip, uv, Go or Cargo. The package manager sees only manifests and lockfiles, reaches only its registry and runs no install scripts. run_tests, run_code and format_code can use the packages afterwards, without network. In the repository, only manifests and lockfiles change.",
    inputSchema,
    needsApproval,
    manualExecution: { mode: "both", label: "Install packages", category: "Development" },
    approvalReason: ({ packages }) => {
      const what = packages.length > 0 ? packages.join(", ") : "the project's packages";
      return `The worker wants to install ${what} into its sandbox. The package manager reaches its registry meanwhile.`;
    },
    preview: (input) => previewInstall(input, settings, services),
    execute: (input, context) => {
      needsApproval();
      return execute(input, context, settings, services);
    },
  };
}

async function plan({ packages, manager, dev, path = "" }: Input, settings: CodeConfig, { workspace }: ToolServices) {
  const folder = workspace.resolve(path);
  const chosen = manager ?? (await findManager(workspace, folder));
  if (!chosen) {
    throw new ToolError(`No file in ${folder || "the repository"} belongs to a package manager.`, {
      code: "INVALID_ARGUMENTS",
      suggestion: `Give the manager: ${managers.join(", ")}.`,
    });
  }
  const { isolated, textOf } = await installFiles(workspace, chosen, folder);
  const install = installCommand({ manager: chosen, packages, dev, index: settings.indexes[chosen], textOf });
  // An empty folder has no folders either.
  const cwd = isolated.files.some((file) => file.path.startsWith(`${folder}/`)) ? folder : "";
  const settingsFiles = Object.entries(install.files ?? {}).map(([path, text]) => {
    return { path, content: Buffer.from(text), executable: false };
  });
  return { cwd, install, isolated: { ...isolated, files: [...isolated.files, ...settingsFiles] } };
}

async function previewInstall(input: Input, settings: CodeConfig, services: ToolServices): Promise<Preview> {
  const { install, isolated } = await plan(input, settings, services);
  const digest = createHash("sha256");
  for (const { path, content } of isolated.files) digest.update(`${path}\0${content.length}\0`).update(content);
  const preview = textPreview(install.command.join(" "));
  return { ...preview, bindings: { "manifests and lockfiles": digest.digest("hex") } };
}

async function execute(input: Input, context: ToolContext, settings: CodeConfig, services: ToolServices) {
  const { cwd, install, isolated } = await plan(input, settings, services);
  const ran = await runCommand(services, {
    tier: settings.tier,
    request: {
      command: install.command,
      env: install.env,
      cwd,
      timeoutMs,
      outputBytes: settings.output_bytes,
      network: settings.registries ?? install.hosts,
      isolated,
      signal: context.abortSignal,
      onOutput: (_, chunk) => context.output(chunk),
    },
    isApproved: (path) => isolated.results.has(path),
  });
  const result = commandResult(ran, install.command.join(" "));
  const missing = describeMissingProgram(ran.result);
  return missing ? { ...result, llmContent: `${missing}\n${result.llmContent}` } : result;
}
