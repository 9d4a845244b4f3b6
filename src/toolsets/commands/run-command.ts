import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { defaultExecutors, type Executors } from "#executors/create-executors.ts";
import type { ExecRequest, ExecResult, Tier, TreeSource } from "#executors/executor.ts";
import type { Sandbox } from "#sandbox/sandbox.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { type AppliedChanges, applyChanges } from "./apply-changes.ts";

export interface FinishedCommand {
  result: ExecResult;
  applied: AppliedChanges;
}

export interface RunCommandOptions {
  tier: Tier;
  request: ExecRequest;
  /** True if a person approved changes of a path that needs approval. */
  isApproved(path: string): boolean;
}

/** Runs a command on the run's files and applies its changes. Throws a ToolError `UNAVAILABLE` if the tier is not available. */
export async function runCommand(
  services: ToolServices,
  { tier, request, isApproved }: RunCommandOptions,
): Promise<FinishedCommand> {
  const { workspace, sandbox } = services;
  checkArguments(request.command, tier);
  const session = await executorsOf(services).openSession(tier, sessionKey(services));
  const cwd = await workingDirectory(services, request.cwd);
  const result = await session.exec(workspaceTree(workspace, sandbox), { ...request, cwd });
  return { result, applied: await applyChanges(result.changes, workspace, { isApproved }) };
}

/** The kernel accepts 128 KiB in one argument, and two megabytes in all of them. */
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

/** Ends the run's session in memory when its tools are closed: a waiting run holds no process. */
export function closeSessionWithTools(services: ToolServices): void {
  services.onClose?.(() => executorsOf(services).closeSession("memory", sessionKey(services)));
}

function executorsOf({ executors }: ToolServices): Executors {
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

/** The files and the history that a command of this worker sees. */
export function workspaceTree(workspace: Workspace, sandbox: Pick<Sandbox, "base" | "log">): TreeSource {
  return {
    resolve: (path) => workspace.resolve(path),
    paths: () => workspace.paths(),
    list: (path, options) => workspace.list(path, options),
    stat: (path) => workspace.stat(path),
    read: (path) => workspace.read(path),
    readBase: (path) => workspace.readBase(path),
    changes: () => workspace.changes(),
    head: sandbox.base,
    log: (options) => sandbox.log(options),
  };
}
