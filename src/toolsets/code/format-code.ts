import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { commandResult, runCommand } from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";
import { describeMissingProgram } from "./install-command.ts";
import { readManifest, withProjectPython } from "./test-runner.ts";

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
    throw new ToolError(`No known formatter is set up in ${folder || "the repository"}.`, {
      code: "UNAVAILABLE",
      suggestion: "Follow the style of the surrounding code.",
    });
  }
  for (const name of paths) await workspace.stat(folder === "" ? name : `${folder}/${name}`);
  const ran = await runCommand(services, {
    tier: settings.tier,
    request: {
      command: withProjectPython(formatter.command(paths)),
      cwd: folder,
      timeoutMs: settings.timeout * 1_000,
      outputBytes: settings.output_bytes,
      signal: context.abortSignal,
      onOutput: (_, chunk) => context.output(chunk),
    },
    isApproved: () => false,
  });
  const result = commandResult(ran, formatter.name);
  const missing = describeMissingProgram(ran.result);
  return missing ? { ...result, llmContent: `${missing}\n${result.llmContent}` } : result;
}

export interface Formatter {
  name: string;
  command(paths: readonly string[]): string[];
}

const everything = (paths: readonly string[]) => (paths.length > 0 ? [...paths] : ["."]);

/** Returns the formatter configured by the files of a folder; undefined if it is unknown. */
export async function findFormatter(workspace: Workspace, folder: string): Promise<Formatter | undefined> {
  const at = (name: string) => (folder === "" ? name : `${folder}/${name}`);
  const manifest = await readManifest(workspace, at("package.json"));
  if (manifest?.dependencies.has("@biomejs/biome")) {
    return {
      name: "biome",
      command: (paths) => ["npx", "--no-install", "biome", "format", "--write", "--", ...everything(paths)],
    };
  }
  if (manifest?.dependencies.has("prettier")) {
    return {
      name: "prettier",
      command: (paths) => ["npx", "--no-install", "prettier", "--write", "--", ...everything(paths)],
    };
  }
  if (manifest?.scripts.format) return { name: "npm run format", command: () => ["npm", "run", "--silent", "format"] };
  if (await workspace.exists(at("go.mod"))) {
    return { name: "gofmt", command: (paths) => ["gofmt", "-l", "-w", "--", ...everything(paths)] };
  }
  if (await workspace.exists(at("Cargo.toml"))) return { name: "cargo fmt", command: () => ["cargo", "fmt"] };
  return pythonFormatter(workspace, at);
}

async function pythonFormatter(workspace: Workspace, at: (name: string) => string): Promise<Formatter | undefined> {
  const texts = await Promise.all(
    ["pyproject.toml", "ruff.toml", ".ruff.toml", "setup.cfg", "requirements.txt", "requirements-dev.txt"].map(
      async (name) => ((await workspace.exists(at(name))) ? `${name}\n${await workspace.read(at(name))}` : ""),
    ),
  );
  const settings = texts.join("\n");
  const python = (name: string, ...options: string[]): Formatter => ({
    name,
    command: (paths) => ["python3", "-m", name, ...options, "--", ...everything(paths)],
  });
  if (/\bruff\b/.test(settings)) return python("ruff", "format");
  return /\bblack\b/.test(settings) ? python("black", "-q") : undefined;
}
