import type { Preview, PreviewSection } from "#domain/preview.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { FileVersion } from "#sandbox/diff-file.ts";
import { type FileVersions, previewFiles } from "#sandbox/preview-files.ts";
import { isProtectedPath } from "./file-approval.ts";

/** The preview of file changes: the given texts first, then every file, the protected ones before the others. */
export function previewChanges(files: readonly FileVersions[], texts: readonly PreviewSection[] = []): Preview {
  const [protectedFiles, others] = [files.filter(isProtected), files.filter((file) => !isProtected(file))];
  return { sections: [...texts, ...previewFiles([...protectedFiles, ...others])] };
}

/** The preview of one file that gets this content, or none. */
export async function previewWrite(
  workspace: Workspace,
  path: string,
  content: Uint8Array | string | undefined,
  { executable }: { executable?: boolean | undefined } = {},
): Promise<FileVersions> {
  const before = await versionOf(workspace, path);
  const isExecutable = executable ?? before?.executable ?? false;
  return {
    path,
    before,
    after: content === undefined ? undefined : { content: Buffer.from(content), executable: isExecutable },
  };
}

/** A file as it is now; undefined where none exists. */
export async function versionOf(workspace: Workspace, path: string): Promise<FileVersion | undefined> {
  if (!(await workspace.exists(path))) return undefined;
  const { type, executable } = await workspace.stat(path);
  if (type === "directory" || type === "submodule") return undefined;
  return { content: await workspace.read(path), executable, ...(type === "symlink" && { isLink: true }) };
}

function isProtected({ path }: FileVersions): boolean {
  return isProtectedPath(path);
}

/** The new state of a file; without content it is deleted. */
export interface FileState {
  path: string;
  content: Uint8Array | string | undefined;
  /** Default: as it was. */
  executable?: boolean | undefined;
}

/**
 * Brings files to their new states: all of them, or none. Deletes first, so that a folder may replace a file. If a change
 * fails, the changes made so far are undone and the error is thrown.
 */
export async function applyFileChanges(workspace: Workspace, changes: readonly FileState[]): Promise<void> {
  const ordered = [
    ...changes.filter(({ content }) => content === undefined),
    ...changes.filter(({ content }) => content !== undefined),
  ];
  const undo: FileState[] = [];
  try {
    for (const change of ordered) {
      undo.unshift(await stateOf(workspace, change.path));
      await apply(workspace, change);
    }
  } catch (error) {
    for (const state of undo) await apply(workspace, state);
    throw error;
  }
}

async function stateOf(workspace: Workspace, path: string): Promise<FileState> {
  if (!(await workspace.exists(path))) return { path, content: undefined };
  const { type, executable } = await workspace.stat(path);
  // A folder in the place of a file makes the change fail; there is nothing to restore.
  if (type === "directory") return { path, content: undefined };
  return { path, content: await workspace.read(path), executable };
}

async function apply(workspace: Workspace, { path, content, executable }: FileState): Promise<void> {
  if (content !== undefined) await workspace.write(path, content, executable === undefined ? {} : { executable });
  else if ((await workspace.exists(path)) && (await workspace.stat(path)).type !== "directory") {
    await workspace.remove(path);
  }
}
