import { randomUUID } from "node:crypto";
import { EventLoopYielder } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import { type Preview, textPreview } from "#domain/preview.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { defaultExecutors, type Executors } from "#executors/create-executors.ts";
import type { ExecRequest, ExecResult, Tier, TreeChanges, TreeSource } from "#executors/executor.ts";
import { hashObject } from "#sandbox/git/git-objects.ts";
import { digestOfChanges, fileChange } from "#sandbox/preview-files.ts";
import type { GitSandbox } from "#sandbox/sandbox.ts";
import { showHidden } from "#text/visible-text.ts";
import { isProtectedPath } from "#toolsets/filesystem/file-changes.ts";
import { parseRange } from "#toolsets/git/git-history.ts";
import { findSetupKey } from "./project-setup.ts";
import type { ToolServices } from "./toolset.ts";

export interface FinishedCommand {
  result: ExecResult;
  applied: CommandChanges;
}

export interface RunCommandOptions extends Omit<ExecRequest, "outputBytes" | "signal" | "onOutput"> {
  settings: { tier: Tier; output_bytes: number };
  /** The call that runs the command: its signal stops it, and it gets the output. */
  context: Pick<ToolContext, "abortSignal" | "output">;
  /** False if the command's changes are dropped, or the paths whose changes are kept. Default: true. */
  appliesChanges?: boolean | ((path: string) => boolean);
  /** True if a person approved changes to a path that needs approval. Default: none. */
  isApproved?(path: string): boolean;
}

/**
 * Runs a command on the run's files and applies its changes. A command with network gets a session of its own, in which
 * nothing is left of earlier commands: no home folder, no ignored files and no settings of git. Throws a ToolError
 * `UNAVAILABLE` if the tier is not available.
 */
export async function runCommand(
  services: ToolServices,
  { settings, context, appliesChanges = true, isApproved = () => false, ...request }: RunCommandOptions,
): Promise<FinishedCommand> {
  const { workspace, sandbox } = services;
  const { tier, output_bytes: outputBytes } = settings;
  checkArguments(request.command, tier);
  const { sandboxTools: tools = [] } = services;
  const executors = executorsOf(services);
  const ownSession = request.network !== undefined && !request.isolated;
  const key = ownSession ? `${sessionKey(services)} ${randomUUID()}` : sessionKey(services);
  const session = await executors.openSession(tier, key, { tools });
  const cwd = await workingDirectory(services, request.cwd);
  const setup = tier === "os" && !request.isolated ? await findSetupKey(services) : undefined;
  const tree = workspaceTree(workspace, sandbox);
  const ran = session.exec(tree, {
    ...request,
    cwd,
    outputBytes,
    signal: context.abortSignal,
    onOutput: (_, chunk) => context.output(chunk),
    ...(setup && { setup }),
  });
  const result = await (ownSession ? ran.finally(() => executors.closeSession(tier, key)) : ran);
  if (appliesChanges === false) return { result, applied: { written: [], deleted: [], rejected: [] } };
  const { written, deleted } = result.changes;
  const isKept = appliesChanges === true ? () => true : appliesChanges;
  const wanted = {
    ...result.changes,
    written: written.filter(({ path }) => isKept(path)),
    deleted: deleted.filter((path) => isKept(path)),
  };
  return { result, applied: await applyCommandChanges(wanted, workspace, { isApproved }) };
}

/** Linux limits a single argument to 128 KiB and all arguments together to two megabytes. */
const maxArgumentBytes = 120_000;
const maxCommandBytes = 1_000_000;

function checkArguments(args: readonly string[], tier: Tier): void {
  if (args.some((argument) => argument.includes("\0"))) {
    throw new ToolError("The command has NUL characters, which no argument can have.", {
      code: "INVALID_ARGUMENTS",
      suggestion: "Remove them, or write the data to a file.",
    });
  }
  if (tier === "memory") return;
  const sizes = args.map((argument) => Buffer.byteLength(argument) + 1);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (total <= maxCommandBytes && sizes.every((size) => size <= maxArgumentBytes)) return;
  throw new ToolError("The command is too long.", {
    code: "TOO_LARGE",
    suggestion: "Write the long part to a file and pass its path.",
  });
}

/** Names the changed files that a command with network can start. The approval is bound to their contents. */
export async function previewUsedChanges({
  sandbox,
}: Pick<ToolServices, "sandbox">): Promise<Preview & { bindings: Record<string, string> }> {
  const changes = (await sandbox.allChanges()).map(fileChange);
  const list = changes.map(({ kind, path }) => `${kind}: ${path}`).join("\n");
  const { sections } = list === "" ? { sections: [] } : textPreview(list, "Changed files that it can use");
  return { sections, bindings: { "changed files": digestOfChanges(changes) } };
}

/** True if the commands of a tier may reach other hosts, whichever the request for approval names. */
export async function mayReachNetwork(services: ToolServices, tier: Tier): Promise<boolean> {
  if (tier !== "remote") return false;
  const { available, hasNetwork } = await executorsOf(services).availability(tier);
  return available && hasNetwork !== false;
}

/** A tool that starts programs of the repository: in a remote sandbox that may have network, each call needs approval. */
export function askWithNetwork(tool: NamedTool, tier: Tier, services: ToolServices): NamedTool {
  if (tier !== "remote") return tool;
  return {
    ...tool,
    needsApproval: () => mayReachNetwork(services, tier),
    afterCrash: "report",
    approvalReason: () =>
      `The worker wants to call ${tool.name} in a remote sandbox that may have network. It can send what it reads in the repository.`,
    preview: (input, context) => tool.preview?.(input, context) ?? previewUsedChanges(services),
  };
}

/** Ends the run's in-memory session when its tools are closed, so that a waiting run holds no process. */
export function closeSessionWithTools(services: ToolServices): void {
  services.onClose?.(() => executorsOf(services).closeSession("memory", sessionKey(services)));
}

export function executorsOf({ executors }: ToolServices): Executors {
  return executors ?? defaultExecutors();
}

function sessionKey({ spec, sandbox }: ToolServices): string {
  return `${spec.id} ${sandbox.base.commit}`;
}

async function workingDirectory({ workspace }: ToolServices, path: string | undefined): Promise<string> {
  const folder = workspace.resolve((path ?? "").replace(/^\/?workspace(?=\/|$)/, ""));
  if (folder === "") return folder;
  if ((await workspace.stat(folder)).type !== "directory") {
    throw new ToolError(`${folder} is a file, and a command runs in a folder.`, {
      code: "NOT_A_DIRECTORY",
      suggestion: "Give the folder of the file, or leave the working directory out.",
    });
  }
  return folder;
}

/** Returns the files and the history that this worker's commands can see. */
export function workspaceTree(
  workspace: Workspace,
  sandbox: Pick<GitSandbox, "base" | "log" | "gitFolder"> & Partial<Pick<GitSandbox, "show" | "readAt">>,
): TreeSource {
  const wholeRepository: object = sandbox;
  return {
    // The git objects contain all files, so only a worker that may read all of them gets them.
    ...(workspace === wholeRepository && {
      gitFolder: async () => sandbox.gitFolder?.(),
      ...(sandbox.show && { show: sandbox.show }),
      ...(sandbox.readAt && { readAt: sandbox.readAt }),
    }),
    resolve: (path) => workspace.resolve(path),
    paths: () => workspace.paths(),
    list: (path, options) => workspace.list(path, options),
    stat: (path) => workspace.stat(path),
    readBytes: (path) => workspace.readBytes(path),
    readBase: (path) => workspace.readBase(path),
    changes: () => workspace.changes(),
    head: sandbox.base,
    log: async ({ range, ...options }) =>
      (await sandbox.log({ ...options, ...(range !== undefined && parseRange(range)) })).commits,
  };
}

/** The changes of a command that were applied to the workspace, and those that were not. */
export interface CommandChanges {
  written: string[];
  deleted: string[];
  rejected: TreeChanges["rejected"];
}

/**
 * Applies a command's changes where zones allow. Those that need approval are applied only if `isApproved`. A file that was
 * moved is changed in both places or in neither, so that its content is not lost.
 */
export async function applyCommandChanges(
  { written, deleted, rejected }: TreeChanges,
  workspace: Workspace,
  { isApproved }: { isApproved(path: string): boolean },
): Promise<CommandChanges> {
  const applied: CommandChanges = { written: [], deleted: [], rejected: [...rejected] };
  const refusal = (path: string, operation: "write" | "delete") => problemOf(workspace, path, operation, isApproved);
  const moves = await refusedMoves({ written, deleted, rejected }, workspace, refusal);

  // Deletes first, so that a file can replace a folder.
  for (const path of deleted) {
    const problem = refusal(path, "delete") ?? moves.get(path) ?? (await attemptChange(() => workspace.remove(path)));
    if (problem) applied.rejected.push({ path, reason: problem });
    else applied.deleted.push(path);
  }
  const loop = new EventLoopYielder();
  for (const { path, content, executable } of written) {
    if (loop.isDue) await loop.turn();
    if (await isUnchanged(workspace, { path, content, executable })) continue;
    const problem =
      refusal(path, "write") ??
      moves.get(path) ??
      (await attemptChange(() => workspace.write(path, content, { executable })));
    if (problem) applied.rejected.push({ path, reason: problem });
    else applied.written.push(path);
  }
  return applied;
}

/**
 * Returns the reasons against the allowed halves of moves of which the other half is refused: the same content there. Of files
 * that the executor rejected, only the size is known.
 */
async function refusedMoves(
  { written, deleted, rejected }: Pick<TreeChanges, "written" | "deleted" | "rejected">,
  workspace: Workspace,
  refusal: (path: string, operation: "write" | "delete") => string | undefined,
): Promise<Map<string, string>> {
  const isRefused =
    rejected.length > 0 ||
    written.some(({ path }) => refusal(path, "write")) ||
    deleted.some((path) => refusal(path, "delete"));
  if (!isRefused || deleted.length === 0) return new Map();

  const loop = new EventLoopYielder();
  const targets = new Map<string, string[]>();
  for (const { path, content: data } of written) {
    if (loop.isDue) await loop.turn();
    targets.getOrInsertComputed(hashObject({ type: "blob", data }), () => []).push(path);
  }
  const rejectedBySize = new Map(rejected.map(({ path, size }) => [size, path]));
  const reasons = new Map<string, string>();
  for (const path of deleted) {
    if (loop.isDue) await loop.turn();
    if (!(await workspace.exists(path))) continue;
    const { type, size } = await workspace.stat(path);
    // Empty files are equal without having been moved.
    if (type !== "file" || size === 0) continue;
    const lost = rejectedBySize.get(size);
    if (lost !== undefined) reasons.set(path, `was moved to ${lost}, which was not changed`);
    const data = await workspace.readBytes(path);
    for (const target of targets.get(hashObject({ type: "blob", data })) ?? []) {
      if (refusal(target, "write")) reasons.set(path, `was moved to ${target}, which was not changed`);
      if (refusal(path, "delete")) reasons.set(target, `was moved from ${path}, which was not deleted`);
    }
  }
  return reasons;
}

/** True if a command wrote what the file already had, as code generators do. */
async function isUnchanged(
  workspace: Workspace,
  { path, content, executable }: TreeChanges["written"][number],
): Promise<boolean> {
  if (!(await workspace.exists(path))) return false;
  const now = await workspace.stat(path);
  if (now.type !== "file" || now.executable !== executable || now.size !== content.byteLength) return false;
  return Buffer.from(content).equals(await workspace.readBytes(path));
}

function problemOf(
  workspace: Workspace,
  path: string,
  operation: "write" | "delete",
  isApproved: (path: string) => boolean,
): string | undefined {
  const rule = workspace.ruleFor(path);
  if (rule.mode === "ro") return "is read-only for this worker";
  if (rule[operation] === "blocked") return `is in a zone where this worker may not ${operation}`;
  const needsApproval = rule[operation] === "ask" || isProtectedPath(path);
  if (needsApproval && !isApproved(path)) return `needs approval: use the file tools to ${operation} it`;
  return undefined;
}

async function attemptChange(change: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await change();
    return undefined;
  } catch (error) {
    if (error instanceof ToolError && error.code === "FILE_NOT_FOUND") return undefined;
    if (error instanceof ToolError) return `was refused: ${error.message}`;
    throw error;
  }
}

/** Returns the result of a command, with stdout and stderr separate for the model and for programs, and combined for people. */
export function commandResult({ result, applied }: FinishedCommand, summary: string): ToolResult {
  const { stdout, stderr, exitCode, durationMs, timedOut, stopped, changes } = result;
  const end = describeEnd(result);
  const sections = [
    end,
    outputSection("stdout", stdout),
    outputSection("stderr", stderr),
    describeChanges(applied),
    changes.ignoredFiles > 0 ? `${changes.ignoredFiles} ignored files stay in the sandbox.` : "",
  ];
  const llmContent = sections.filter((text) => text !== "").join("\n");
  const notApplied = describeRejected(applied);
  const content = [stdout, stderr, timedOut || stopped ? end : "", ...notApplied].filter(Boolean).join("\n");
  const value = {
    kind: "terminal" as const,
    content,
    exitCode,
    stdout,
    stderr,
    durationMs,
    ...(notApplied.length > 0 && { notApplied }),
    summary: `${summary}: ${end}`,
  };
  if (!timedOut && !stopped) return { llmContent, value };

  return {
    llmContent,
    value,
    error: { type: "system_error", code: timedOut ? "TIMEOUT" : "EXECUTION_ERROR", message: end },
  };
}

/** Removes progress bars: keeps only the last state of each line that a terminal would show, without repeated progress lines. */
export function withoutProgress(text: string): string {
  if (!/\r|^Progress: /m.test(text)) return text;
  const lines = text.split("\n").map((line) => {
    const states = line.split("\r").filter((state) => state !== "");
    return states.length > 1 ? (states.at(-1) ?? "") : line;
  });
  const isProgress = (line: string | undefined) => line !== undefined && /^(Progress: |[-+#=]{20,}$)/.test(line);
  return lines.filter((line, at) => !isProgress(line) || !isProgress(lines[at + 1])).join("\n");
}

function outputSection(name: string, text: string): string {
  const visible = showHidden(withoutProgress(text)).replace(/\n$/, "");
  return visible === "" ? `${name}: (nothing)` : `${name}:\n${visible}`;
}

const maxListed = 20;

/** Describes how a command ended, in one sentence. */
export function describeEnd({ exitCode, timedOut, stopped, durationMs }: ExecResult): string {
  const seconds = (durationMs / 1_000).toFixed(durationMs < 10_000 ? 2 : 0);
  if (stopped) return `${stopped} (after ${seconds} s)`;
  if (timedOut) return `Timed out after ${seconds} s; the command and everything it started were killed.`;
  return `Exit code ${exitCode} after ${seconds} s.`;
}

/** Lists the files that a command changed, and the rejected changes with their reasons. */
export function describeChanges(changes: CommandChanges): string {
  const { written, deleted } = changes;
  const lines = [
    written.length > 0 ? `Changed: ${listSome(written)}` : "",
    deleted.length > 0 ? `Deleted: ${listSome(deleted)}` : "",
    ...describeRejected(changes),
  ];
  return lines.filter((line) => line !== "").join("\n");
}

function describeRejected({ rejected }: CommandChanges): string[] {
  const lines = rejected
    .slice(0, maxListed)
    .map(({ path, reason }) => `Not applied: ${path}, because it ${reason.replace(/\.$/, "")}.`);
  const rest = rejected.length - maxListed;
  return rest > 0 ? [...lines, `Not applied: ${rest} more.`] : lines;
}

export function listSome(paths: readonly string[]): string {
  const rest = paths.length - maxListed;
  return paths.slice(0, maxListed).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}
