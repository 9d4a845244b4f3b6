import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { isLfsPointer } from "#sandbox/is-lfs-pointer.ts";

const sniffedBytes = 8_000;

/** The size of the content a Git LFS pointer stands for, in bytes; undefined for any other file. */
export function lfsPointerSize(content: Uint8Array): number | undefined {
  if (!isLfsPointer(content)) return undefined;
  return Number(/^size (\d+)$/m.exec(Buffer.from(content).toString("utf8"))?.[1]);
}

/** True for content that is not UTF-8 text, as git guesses it and stricter: a NUL byte early on, or broken UTF-8. */
export function isBinaryContent(content: Uint8Array): boolean {
  if (content.subarray(0, sniffedBytes).includes(0)) return true;
  return decode(content) === undefined;
}

/** UTF-8 with its byte order mark kept, so that writing it back gives the same bytes; undefined when it is not UTF-8. */
export function decode(content: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    return undefined;
  }
}

/** The text of a file a tool is about to change. Throws a ToolError for binaries and Git LFS pointers. */
export async function readForEdit(workspace: Workspace, path: string): Promise<string> {
  const content = await workspace.read(path);
  refuseLfsPointer(content, path);
  const text = isBinaryContent(content) ? undefined : decode(content);
  if (text === undefined) {
    throw new ToolError(`${path} is not a text file.`, {
      code: "BINARY_FILE",
      suggestion: "Replace the whole file with write_file and encoding base64, if it must change at all.",
    });
  }
  return text;
}

/** Throws a ToolError when the content is a Git LFS pointer: the real file is not in the repository. */
export function refuseLfsPointer(content: Uint8Array, path: string): void {
  if (lfsPointerSize(content) === undefined) return;
  throw new ToolError(`${path} is a Git LFS pointer: its content is stored outside the repository.`, {
    code: "BINARY_FILE",
    suggestion: "Leave it as it is; changing the pointer would break the file.",
  });
}

/** The lines of a text without their endings; a final line ending does not make another line. */
export function splitLines(text: string): string[] {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}
