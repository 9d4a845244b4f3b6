import { ToolError } from "#domain/errors.ts";
import type { ContentChunk, Workspace } from "#domain/workspace.ts";

/** Reads files in large chunks where the workspace can, and one by one where it cannot. */
export async function* readContents(workspace: Workspace, paths: readonly string[]): AsyncIterable<ContentChunk> {
  if (workspace.contents) {
    yield* workspace.contents(paths);
    return;
  }
  for (const path of paths) {
    const bytes = await readIfFile(workspace, path);
    if (bytes) yield { bytes, files: [{ path, start: 0, end: bytes.length }] };
  }
}

/** Undefined for paths without content: submodules, and links that are broken or leave the repository. */
async function readIfFile(workspace: Workspace, path: string): Promise<Uint8Array | undefined> {
  try {
    return await workspace.read(path);
  } catch (error) {
    if (error instanceof ToolError) return undefined;
    throw error;
  }
}
