import { ToolError } from "#domain/errors.ts";
import type { Preview, PreviewSection } from "#domain/preview.ts";
import type { GitSandbox } from "#sandbox/git-sandbox.ts";
import type { FileVersions } from "#sandbox/preview-files.ts";
import { isProtectedPath, previewChanges } from "#toolsets/filesystem/file-changes.ts";

/** Returns the files of the next push. Throws a ToolError if there are none, so that nobody is asked to approve an empty change. */
export async function proposedFiles(sandbox: GitSandbox): Promise<FileVersions[]> {
  const files = await sandbox.outgoing();
  if (files.length > 0) return files;
  throw new ToolError("There are no changes to propose.", {
    code: "CONFLICT",
    suggestion: "Change files first; git_status lists the changes.",
  });
}

/** True if the next push changes a protected file, which a command may have changed without approval. */
export async function pushesProtectedFile(sandbox: GitSandbox): Promise<boolean> {
  return (await sandbox.outgoing()).some(({ path }) => isProtectedPath(path));
}

/** Returns a preview of everything a push publishes: the texts that the model wrote, then every file. */
export async function previewPush(sandbox: GitSandbox, texts: Record<string, string | undefined>): Promise<Preview> {
  const sections = Object.entries(texts).flatMap(([title, text]): PreviewSection[] =>
    text === undefined ? [] : [{ kind: "text", title, text }],
  );
  return { ...previewChanges(await proposedFiles(sandbox), sections), filesFixed: true };
}
