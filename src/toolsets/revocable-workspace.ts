import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";

/** A workspace for as long as it is lent, and its end. */
export interface RevocableWorkspace {
  workspace: Workspace;
  /** From here on nothing can be changed with it: what a tool left running reaches no later call's changes. */
  revoke(): void;
}

/** Lends a workspace to one call. One that is only looked at is lent closed. */
export function revocableWorkspace(workspace: Workspace): RevocableWorkspace {
  let isOver = false;

  async function whileLent<T>(change: () => Promise<T>): Promise<T> {
    if (!isOver) return change();
    throw new ToolError("Nothing can be changed here: the call has not begun, or is over.", {
      code: "PERMISSION_DENIED",
    });
  }

  return {
    workspace: {
      resolve: (path) => workspace.resolve(path),
      exists: (path) => workspace.exists(path),
      stat: (path) => workspace.stat(path),
      read: (path) => workspace.read(path),
      write: (path, content, options) => whileLent(() => workspace.write(path, content, options)),
      remove: (path, options) => whileLent(() => workspace.remove(path, options)),
      move: (from, to, options) => whileLent(() => workspace.move(from, to, options)),
      list: (path, options) => workspace.list(path, options),
      paths: () => workspace.paths(),
      changes: () => workspace.changes(),
      readBase: (path) => workspace.readBase(path),
      ruleFor: (path) => workspace.ruleFor(path),
    },
    revoke: () => {
      isOver = true;
    },
  };
}
