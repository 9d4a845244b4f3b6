import { posix } from "node:path";
import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { isWithin } from "#sandbox/paths.ts";
import { commandResult, runCommand } from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";
import { describeMissingProgram } from "./install-command.ts";
import { readManifest, withProjectPython } from "./test-runner.ts";

const inputSchema = z.object({
  paths: z
    .array(z.string())
    .max(200)
    .default([])
    .describe(
      'Files or folders, relative to `path`; default: the files that this run has changed; ["."] for everything',
    ),
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
  const project = workspace.resolve(path);
  const found = await findNearestFormatter(workspace, project);
  if (!found) {
    throw new ToolError(`No known formatter is set up in ${project || "the repository"}.`, {
      code: "UNAVAILABLE",
      suggestion: "Follow the style of the surrounding code.",
    });
  }
  const { formatter, folder } = found;
  const names = await pathsToFormat(workspace, { paths, project, formatter });
  const files = names.map((name) => posix.relative(folder, name) || ".");
  const ran = await runCommand(services, {
    settings,
    context,
    command: withProjectPython(formatter.command(files)),
    cwd: folder,
    timeoutMs: settings.timeout * 1_000,
  });
  const result = commandResult(ran, formatter.name);
  const missing = describeMissingProgram(ran.result);
  return missing ? { ...result, llmContent: `${missing}\n${result.llmContent}` } : result;
}

/**
 * Returns the given paths, relative to the root; by default the files that the run has changed, so that a formatter of
 * another version than the project's does not touch the others.
 */
async function pathsToFormat(
  workspace: Workspace,
  { paths, project, formatter }: { paths: readonly string[]; project: string; formatter: Formatter },
): Promise<string[]> {
  if (paths.length > 0) {
    const names = paths.map((name) => posix.join(project, name));
    for (const name of names) await workspace.stat(name);
    return names;
  }
  if (!formatter.formats) return [];
  const changed = (await workspace.changes())
    .filter(({ path, status }) => status !== "deleted" && isWithin(path, project))
    .map(({ path }) => path)
    .filter((path) => formatter.formats?.test(path));
  if (changed.length > 0) return changed;
  throw new ToolError(`This run has changed no file that ${formatter.name} formats.`, {
    code: "CONFLICT",
    suggestion: 'Name the files in `paths`; ["."] formats everything.',
  });
}

async function findNearestFormatter(
  workspace: Workspace,
  project: string,
): Promise<{ formatter: Formatter; folder: string } | undefined> {
  for (let folder = project; ; folder = posix.dirname(folder) === "." ? "" : posix.dirname(folder)) {
    const formatter = await findFormatter(workspace, folder);
    if (formatter) return { formatter, folder };
    if (folder === "") return undefined;
  }
}

export interface Formatter {
  name: string;
  /** The files that it formats. Undefined if it always formats the whole project. */
  formats?: RegExp;
  command(paths: readonly string[]): string[];
}

/** Returns the formatter configured by the files of a folder; undefined if it is unknown. */
export async function findFormatter(workspace: Workspace, folder: string): Promise<Formatter | undefined> {
  const at = (name: string) => (folder === "" ? name : `${folder}/${name}`);
  const manifest = await readManifest(workspace, at("package.json"));
  const node = (name: string, ...options: string[]): Formatter => ({
    name,
    formats: /./,
    command: (paths) => ["npx", "--no-install", name, ...options, "--", ...paths],
  });
  if (manifest?.dependencies.has("@biomejs/biome")) {
    return node("biome", "format", "--write", "--files-ignore-unknown=true", "--no-errors-on-unmatched");
  }
  if (manifest?.dependencies.has("prettier")) return node("prettier", "--write", "--ignore-unknown");
  if (manifest?.scripts.format) return { name: "npm run format", command: () => ["npm", "run", "--silent", "format"] };
  if (await workspace.exists(at("go.mod"))) {
    return { name: "gofmt", formats: /\.go$/, command: (paths) => ["gofmt", "-l", "-w", "--", ...paths] };
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
    formats: /\.pyi?$/,
    command: (paths) => ["python3", "-m", name, ...options, "--", ...paths],
  });
  if (/\bruff\b/.test(settings)) return python("ruff", "format");
  return /\bblack\b/.test(settings) ? python("black", "-q") : undefined;
}
