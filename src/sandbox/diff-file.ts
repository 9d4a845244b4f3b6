import { isUtf8 } from "node:buffer";
import { type DiffBudget, diffLines, hunkHeader } from "./diff-lines.ts";

export interface FileVersion {
  content: Uint8Array;
  executable: boolean;
  /** A symbolic link, whose content is its target. */
  isLink?: boolean;
  /** The blob id, if it is known. */
  oid?: string;
}

/** Formats the change of one file as `git diff` does, within the budget of a request. */
export function diffFile(
  path: string,
  { before, after }: { before: FileVersion | undefined; after: FileVersion | undefined },
  budget?: DiffBudget,
): string {
  const head = [`diff --git ${quotePath(`a/${path}`)} ${quotePath(`b/${path}`)}`, ...modeLines(before, after)];
  const from = before ? quotePath(`a/${path}`) : "/dev/null";
  const to = after ? quotePath(`b/${path}`) : "/dev/null";
  if (Buffer.from(before?.content ?? []).equals(after?.content ?? new Uint8Array())) return lines(head);
  if (isBinary(before) || isBinary(after)) return lines([...head, `Binary files ${from} and ${to} differ`]);

  const hunks = diffLines(text(before), text(after), budget).flatMap((hunk) => [hunkHeader(hunk), ...hunk.lines]);
  return lines([...head, `--- ${from}`, `+++ ${to}`, ...hunks]);
}

/** Returns the file mode as git stores it in a tree. */
export function modeOf({ executable, isLink }: FileVersion): "100644" | "100755" | "120000" {
  if (isLink) return "120000";
  return executable ? "100755" : "100644";
}

/** Returns the mode lines of a diff header; empty if the mode did not change. */
export function modeLines(before: FileVersion | undefined, after: FileVersion | undefined): string[] {
  if (!before) return after ? [`new file mode ${modeOf(after)}`] : [];
  if (!after) return [`deleted file mode ${modeOf(before)}`];
  return modeOf(before) === modeOf(after) ? [] : [`old mode ${modeOf(before)}`, `new mode ${modeOf(after)}`];
}

/** True if there is a NUL byte near the start, as in git, or invalid UTF-8, which a text patch would not preserve. */
export function isBinary(version: FileVersion | undefined): boolean {
  if (!version) return false;
  return version.content.subarray(0, 8_000).includes(0) || !isUtf8(version.content);
}

function text(version: FileVersion | undefined): string {
  return Buffer.from(version?.content ?? []).toString("utf8");
}

/** Quotes a path as git does in a diff header. */
export function quotePath(name: string): string {
  return /["\\]/.test(name) ? JSON.stringify(name) : name;
}

function lines(all: readonly string[]): string {
  return all.map((line) => `${line}\n`).join("");
}
