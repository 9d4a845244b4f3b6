import { ToolError } from "#errors.ts";
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
  const { workspace, sandbox, spec } = services;
  const executors = services.executors ?? defaultExecutors();
  const session = await executors.openSession(tier, `${spec.id} ${sandbox.base.commit}`);
  const cwd = await folderIn(services, request.cwd);
  const result = await session.exec(workspaceTree(workspace, sandbox), { ...request, cwd });
  return { result, taken: await takeOver(result.changes, workspace, { isAgreed }) };
}

async function folderIn({ workspace }: ToolServices, path: string | undefined): Promise<string> {
  const folder = workspace.resolve((path ?? "").replace(/^\/?workspace(?=\/|$)/, ""));
  if (folder === "") return folder;
  if ((await workspace.stat(folder)).type !== "directory") {
    throw new ToolError(`${folder} is a file, and a command runs in a folder.`, { code: "NOT_A_DIRECTORY" });
  }
  return folder;
}
