import type { Preview, PreviewSection } from "#domain/preview.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { FileVersion } from "#sandbox/diff-file.ts";
import { type FileVersions, previewFiles } from "#sandbox/preview-files.ts";
import { isProtectedPath } from "./protected-paths.ts";

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
