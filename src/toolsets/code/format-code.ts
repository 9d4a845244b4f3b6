import { posix } from "node:path";
import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { folderOf, isWithin } from "#sandbox/paths.ts";
import {
  commandResult,
  describeChanges,
  describeEnd,
  type FinishedCommand,
  listSome,
  runCommand,
} from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";
import { describeMissingProgram, type FailedCommand, lastInstallation } from "./install-command.ts";
import { type PackageManifest, readManifest, withProjectTools } from "./test-runner.ts";

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
      "Format code with the project's own formatter, such as prettier, biome, ruff, gofmt or its format script.",
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
): Promise<ToolResult> {
  const { workspace } = services;
  const names = await pathsToFormat(workspace, paths, workspace.resolve(path));
  const groups = await groupByFormatter(workspace, names);
  if (groups.length === 0) {
    throw new ToolError(`No known formatter is set up for ${names.slice(0, 3).join(", ") || "the repository"}.`, {
      code: "UNAVAILABLE",
      suggestion: "Follow the style of the surrounding code.",
    });
  }
  const finished: FinishedFormatting[] = [];
  for (const { formatter, folder, names: own } of groups) {
    const isWanted = (changed: string) => own.some((name) => isWithin(changed, name));
    const ran = await runCommand(services, {
      settings,
      context,
      command: withProjectTools(formatter.command(own.map((name) => posix.relative(folder, name) || "."))),
      cwd: folder,
      timeoutMs: settings.timeout * 1_000,
      appliesChanges: isWanted,
    });
    finished.push({ ...ran, formatter, others: changedPaths(ran).filter((changed) => !isWanted(changed)) });
    if (ran.result.timedOut || ran.result.stopped) break;
  }
  return report(finished, lastInstallation(services.history()));
}

interface FinishedFormatting extends FinishedCommand {
  formatter: Formatter;
  /** Files that the call does not name, but that the formatter would also change. */
  others: string[];
}

function changedPaths({ result: { changes } }: FinishedCommand): string[] {
  return [...changes.written.map(({ path }) => path), ...changes.deleted];
}

function report(finished: readonly FinishedFormatting[], installation: FailedCommand | undefined): ToolResult {
  const ends = finished.map(({ formatter, result }) => `${formatter.name}: ${describeEnd(result)}`);
  const outputs = finished.flatMap(({ result }) => [result.stdout, result.stderr]);
  const last = finished.at(-1)?.result;
  const isUnfinished = last?.timedOut || last?.stopped;
  return {
    llmContent: finished.map((one) => describeFormatting(one, installation)).join("\n"),
    value: {
      kind: "terminal",
      content: [...outputs, isUnfinished ? (ends.at(-1) ?? "") : ""].filter(Boolean).join("\n"),
      exitCode: finished.find(({ result }) => result.exitCode !== 0)?.result.exitCode ?? last?.exitCode ?? null,
      summary: ends.join(" "),
    },
    ...(isUnfinished && {
      error: {
        type: "system_error",
        code: last.timedOut ? "TIMEOUT" : "EXECUTION_ERROR",
        message: ends.at(-1) ?? "",
      },
    }),
  };
}

/** Says what a formatter changed; its output only if it failed, since it may list every file that it looked at. */
function describeFormatting(finished: FinishedFormatting, installation: FailedCommand | undefined): string {
  const { formatter, result, applied, others } = finished;
  const left = others.length > 0 ? `Not kept, since this call does not name them: ${listSome(others)}` : "";
  const lines =
    result.exitCode === 0
      ? [`${formatter.name}: ${describeChanges(applied) || "Nothing to change in these files."}`]
      : [describeMissingProgram(result, installation), commandResult(finished, formatter.name).llmContent];
  return [...lines, left].filter(Boolean).join("\n");
}

/** Returns the given paths from the root. Default: the changed files, since formatter versions differ. */
async function pathsToFormat(workspace: Workspace, paths: readonly string[], project: string): Promise<string[]> {
  if (paths.length > 0) {
    const names = paths.map((name) => workspace.resolve(posix.join(project, name)));
    for (const name of names) if (name !== "") await workspace.stat(name);
    return names;
  }
  const changes = (await workspace.changes()).filter(
    ({ path, status }) => status !== "deleted" && isWithin(path, project),
  );
  const entries = await Promise.all(changes.map(({ path }) => workspace.stat(path)));
  const changed = entries.filter(({ type }) => type === "file").map(({ path }) => path);
  if (changed.length > 0) return changed;
  throw new ToolError(`This run has changed no file in ${project || "the repository"}.`, {
    code: "CONFLICT",
    suggestion: 'Name the files in `paths`; ["."] formats everything.',
  });
}

interface FormatterGroup {
  formatter: Formatter;
  /** The folder with the formatter's settings. */
  folder: string;
  names: string[];
}

/** Finds the formatter of each file in the nearest folder that has one for it. For a folder, these are all of that folder. */
async function groupByFormatter(workspace: Workspace, names: readonly string[]): Promise<FormatterGroup[]> {
  const byFolder = new Map<string, Promise<Formatter[]>>();
  const formattersOf = (folder: string) =>
    byFolder.getOrInsertComputed(folder, () => findFormatters(workspace, folder));
  const groups = new Map<Formatter, FormatterGroup>();
  for (const name of names) {
    const isFolder = name === "" || (await workspace.stat(name)).type === "directory";
    for (let folder = isFolder ? name : folderOf(name); ; folder = folderOf(folder)) {
      const all = await formattersOf(folder);
      const own = isFolder ? all : all.filter(({ formats }) => formats.test(name)).slice(0, 1);
      for (const formatter of own) {
        groups.getOrInsertComputed(formatter, () => ({ formatter, folder, names: [] })).names.push(name);
      }
      if (own.length > 0 || folder === "") break;
    }
  }
  return [...groups.values()];
}

export interface Formatter {
  name: string;
  /** The files that it formats. */
  formats: RegExp;
  /** Some formatters always format the whole project. */
  command(paths: readonly string[]): string[];
}

/** Formatters of Node.js by the package that provides them. Those of JavaScript ignore the files that they do not know. */
const nodeFormatters = [
  ["@biomejs/biome", "biome", "format", "--write", "--files-ignore-unknown=true", "--no-errors-on-unmatched"],
  ["prettier", "prettier", "--write", "--ignore-unknown"],
  ["oxfmt", "oxfmt", "--no-error-on-unmatched-pattern"],
  ["standard", "standard", "--fix"],
] as const;

/** The files of other languages, which those of Node.js do not format. */
const ofNode = /(?<!\.(?:go|rs|pyi?))$/;
/** Options of a `format` script that do not affect the result. With any other, only the script formats as the project does. */
const plainOption =
  /^(?:-[wlu]|--(?:write|fix|check|list-different|ignore-unknown|files-ignore-unknown|no-errors?-on-unmatched(?:-pattern)?|cache|log-?level|no-color)(?:=.*)?)$/;

/** Returns the formatters configured by the files of a folder. Each file is formatted with the first one that formats it. */
export async function findFormatters(workspace: Workspace, folder: string): Promise<Formatter[]> {
  const at = (name: string) => (folder === "" ? name : `${folder}/${name}`);
  const found: Formatter[] = [];
  if (await workspace.exists(at("go.mod")))
    found.push({ name: "gofmt", formats: /\.go$/, command: (paths) => ["gofmt", "-l", "-w", "--", ...paths] });
  if (await workspace.exists(at("Cargo.toml")))
    found.push({ name: "cargo fmt", formats: /\.rs$/, command: () => ["cargo", "fmt"] });
  const manifest = await readManifest(workspace, at("package.json"));
  return [...found, ...(await pythonFormatters(workspace, at)), ...(manifest ? nodeFormattersOf(manifest) : [])];
}

function nodeFormattersOf({ dependencies, scripts: { format = "" } }: PackageManifest): Formatter[] {
  const script = { name: "npm run format", formats: /$/, command: () => ["npm", "run", "--silent", "format"] };
  const known = nodeFormatters.find(([dependency]) => dependencies.has(dependency));
  const hasSettings = format.split(/\s+/).some((word) => word.startsWith("-") && !plainOption.test(word));
  if (!known || (format.includes(known[1]) && hasSettings)) return format === "" ? [] : [script];
  const [, name, ...options] = known;
  // Oxfmt excludes a file whose name begins with an exclamation mark.
  const own = (paths: readonly string[]) => (name === "oxfmt" ? paths.map((path) => `./${path}`) : paths);
  return [
    { name, formats: ofNode, command: (paths) => ["npx", "--no-install", name, ...options, "--", ...own(paths)] },
  ];
}

async function pythonFormatters(workspace: Workspace, at: (name: string) => string): Promise<Formatter[]> {
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
  if (/\bruff\b/.test(settings)) return [python("ruff", "format")];
  return /\bblack\b/.test(settings) ? [python("black", "-q")] : [];
}
