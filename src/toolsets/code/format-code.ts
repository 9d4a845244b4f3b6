import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { commandResult, runCommand } from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";
import { findFormatter } from "./formatter.ts";
import { missingProgram } from "./missing-program.ts";

const inputSchema = z.object({
  paths: z.array(z.string()).max(200).default([]).describe("Files or folders, relative to `path`; default: everything"),
  path: z.string().optional().describe("The folder of the project; default: the root of the repository"),
});
type Input = z.infer<typeof inputSchema>;

export function createFormatCodeTool(settings: CodeConfig, services: ToolServices): NamedTool<Input> {
  return {
    name: "format_code",
    description:
      "Format code with the project's own formatter (biome, prettier, its format script, ruff, black, gofmt, cargo fmt).",
    inputSchema,
    needsApproval: false,
    manualExecution: { mode: "both", label: "Format code", category: "Development" },
    execute: (input, context) => execute(input, context, settings, services),
  };
}

async function execute(
  { paths, path = "" }: Input,
  context: ToolContext,
  settings: CodeConfig,
  services: ToolServices,
) {
  const { workspace } = services;
  const folder = workspace.resolve(path);
  const formatter = await findFormatter(workspace, folder);
  if (!formatter) {
    throw new ToolError(`There is no formatter I know in ${folder || "the repository"}.`, {
      code: "UNAVAILABLE",
      suggestion: "Keep to the style of the code around it.",
    });
  }
  for (const name of paths) await workspace.stat(folder === "" ? name : `${folder}/${name}`);
  const ran = await runCommand(services, {
    tier: settings.tier,
    request: {
      command: formatter.command(paths),
      cwd: folder,
      timeoutMs: settings.timeout * 1_000,
      outputBytes: settings.output_bytes,
      signal: context.abortSignal,
      onOutput: (_, chunk) => context.output(chunk),
    },
    isApproved: () => false,
  });
  const result = commandResult(ran, formatter.name);
  const missing = missingProgram(ran.result);
  return missing ? { ...result, llmContent: `${missing}\n${result.llmContent}` } : result;
}
