import { ToolError } from "#errors.ts";
import type { Executors } from "#executors/create-executors.ts";
import { defaultExecutors } from "#executors/default-executors.ts";
import type { ExecRequest, ExecResult, Tier } from "#executors/executor.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { type TakenOver, takeOver } from "./take-over.ts";
import { workspaceTree } from "./workspace-tree.ts";

export interface RanCommand {
  result: ExecResult;
  taken: TakenOver;
}

/** What a command may be, and what may come of it. */
export interface CommandOptions {
  tier: Tier;
  request: ExecRequest;
  /** Whether a person agreed to changes of a path that is always asked. */
  isAgreed(path: string): boolean;
}

/** Runs a command on the run's tree and takes over what it changed. Throws a ToolError `UNAVAILABLE` that says why there is no such tier. */
export async function runCommand(
  services: ToolServices,
  { tier, request, isAgreed }: CommandOptions,
): Promise<RanCommand> {
  const { workspace, sandbox } = services;
  const session = await executorsOf(services).openSession(tier, sessionKey(services));
  const cwd = await folderIn(services, request.cwd);
  const result = await session.exec(workspaceTree(workspace, sandbox), { ...request, cwd });
  return { result, taken: await takeOver(result.changes, workspace, { isAgreed }) };
}

/** Ends the run's session in memory when its tools are put away: a run that waits holds no process. */
export function endWithTools(services: ToolServices): void {
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
