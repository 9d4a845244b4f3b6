import { ToolError } from "#domain/errors.ts";
import type { Executors } from "#executors/create-executors.ts";
import { defaultExecutors } from "#executors/default-executors.ts";
import type { ExecRequest, ExecResult, Tier } from "#executors/executor.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { type AppliedChanges, applyChanges } from "./apply-changes.ts";
import { workspaceTree } from "./workspace-tree.ts";

export interface FinishedCommand {
  result: ExecResult;
  applied: AppliedChanges;
}

/** What a command may be, and what may come of it. */
export interface RunCommandOptions {
  tier: Tier;
  request: ExecRequest;
  /** Whether a person agreed to changes of a path that is always asked. */
  isApproved(path: string): boolean;
}

/** Runs a command on the run's tree and takes over what it changed. Throws a ToolError `UNAVAILABLE` that says why there is no such tier. */
export async function runCommand(
  services: ToolServices,
  { tier, request, isApproved: isAgreed }: RunCommandOptions,
): Promise<FinishedCommand> {
  const { workspace, sandbox } = services;
  checkWords(request.command, tier);
  const session = await executorsOf(services).openSession(tier, sessionKey(services));
  const cwd = await folderIn(services, request.cwd);
  const result = await session.exec(workspaceTree(workspace, sandbox), { ...request, cwd });
  return { result, applied: await applyChanges(result.changes, workspace, { isAgreed }) };
}

/** The kernel takes 128 KiB in one argument, and two megabytes in all of them. */
const maxArgumentBytes = 120_000;
const maxCommandBytes = 1_000_000;

function checkWords(words: readonly string[], tier: Tier): void {
  if (words.some((word) => word.includes("\0"))) {
    throw new ToolError("The command has NUL characters, which no argument can have.", { code: "INVALID_ARGUMENTS" });
  }
  if (tier === "memory") return;
  const sizes = words.map((word) => Buffer.byteLength(word) + 1);
  const all = sizes.reduce((sum, size) => sum + size, 0);
  if (all <= maxCommandBytes && sizes.every((size) => size <= maxArgumentBytes)) return;
  throw new ToolError("The command is too long to hand over.", {
    code: "TOO_LARGE",
    suggestion: "Write what is long into a file and name that.",
  });
}

/** Ends the run's session in memory when its tools are put away: a run that waits holds no process. */
export function closeSessionWithTools(services: ToolServices): void {
  services.onClose?.(() => executorsOf(services).closeSession("memory", sessionKey(services)));
}

function executorsOf({ executors }: ToolServices): Executors {
  return executors ?? defaultExecutors();
}

function sessionKey({ spec, sandbox }: ToolServices): string {
  return `${spec.id} ${sandbox.base.commit}`;
}

async function folderIn({ workspace }: ToolServices, path: string | undefined): Promise<string> {
  const folder = workspace.resolve((path ?? "").replace(/^\/?workspace(?=\/|$)/, ""));
  if (folder === "") return folder;
  if ((await workspace.stat(folder)).type !== "directory") {
    throw new ToolError(`${folder} is a file, and a command runs in a folder.`, { code: "NOT_A_DIRECTORY" });
  }
  return folder;
}
