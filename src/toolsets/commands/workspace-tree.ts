import type { Workspace } from "#domain/workspace.ts";
import type { TreeSource } from "#executors/executor.ts";
import type { Sandbox } from "#sandbox/sandbox.ts";

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
