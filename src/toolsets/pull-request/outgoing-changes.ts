import { ToolError } from "#domain/errors.ts";
import type { Preview, PreviewSection } from "#domain/preview.ts";
import type { GitSandbox } from "#sandbox/git-sandbox.ts";
import type { FileVersions } from "#sandbox/preview-files.ts";
import { previewChanges } from "#toolsets/filesystem/preview-changes.ts";
import { isProtectedPath } from "#toolsets/filesystem/protected-paths.ts";

/** The files of the next push. Throws a ToolError when there are none, so that nobody is asked to approve nothing. */
export async function proposedFiles(sandbox: GitSandbox): Promise<FileVersions[]> {
  const files = await sandbox.outgoing();
  if (files.length > 0) return files;
  throw new ToolError("Nothing has changed, so there is nothing to propose.", {
    code: "CONFLICT",
    suggestion: "Make the changes first; git_status shows them.",
  });
}

/** True when the next push changes a protected file: a command may have changed it without approval. */
export async function pushesProtectedFile(sandbox: GitSandbox): Promise<boolean> {
  return (await sandbox.outgoing()).some(({ path }) => isProtectedPath(path));
}

/** What a push sends out: the texts that the model wrote, then every file. */
export async function previewPush(sandbox: GitSandbox, texts: Record<string, string | undefined>): Promise<Preview> {
  const sections = Object.entries(texts).flatMap(([title, text]): PreviewSection[] =>
    text === undefined ? [] : [{ kind: "text", title, text }],
  );
  return { ...previewChanges(await proposedFiles(sandbox), sections), filesFixed: true };
}
