import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { canonicalJson } from "#domain/approval.ts";
import { EventLoopYielder, runInTurns } from "#domain/async-work.ts";
import type { FileChange, NotShown, PreviewSection } from "#domain/preview.ts";
import type { DiffHunk } from "#domain/result.ts";
import { visibleLine } from "#text/visible-text.ts";
import { DiffBudget, differingPart, diffLines, type FileVersion, hunkHeader, modeOf, moveHunks } from "./diff-file.ts";
import { hashObject } from "./git/git-objects.ts";

/** A file at the base and after the change; undefined where it does not exist. */
export interface FileVersions {
  path: string;
  before: FileVersion | undefined;
  after: FileVersion | undefined;
}

export interface PreviewLimits {
  /** The maximum size of the part of a file that differs, if it is shown, in bytes. */
  maxFileBytes: number;
}

const defaultLimits: PreviewLimits = { maxFileBytes: 512_000 };

/** A file with more unprintable bytes than this is not shown. Fewer are shown as escapes. */
const maxUnprintable = { count: 16, share: 0.1 };

/** Returns sections that show file changes. Each file has its kind, modes, blob ids and size, even if not shown. */
export async function previewFiles(
  files: readonly FileVersions[],
  limits: PreviewLimits = defaultLimits,
): Promise<PreviewSection[]> {
  const budget = new DiffBudget();
  const loop = new EventLoopYielder();
  return Array.fromAsync(files, async (file) => {
    if (loop.isDue) await loop.turn();
    return previewFile(file, { budget, loop, ...limits });
  });
}

async function previewFile(file: FileVersions, options: DiffOptions): Promise<PreviewSection> {
  const change = fileChange(file);
  const diff = await diffOf(file, options);
  if ("notShown" in diff) return { kind: "hidden-file", change, reason: diff.notShown };
  return { kind: "file", change, diff: await formatHunks(diff, options.loop) };
}

/** Describes a change by its bytes. */
export function fileChange({ path, before, after }: FileVersions): FileChange {
  return {
    path,
    kind: before ? (after ? "modified" : "deleted") : "added",
    ...(before && { oldMode: modeOf(before), oldBlob: blobId(before) }),
    ...(after && { newMode: modeOf(after), newBlob: blobId(after) }),
    size: after?.content.length ?? 0,
  };
}

function blobId({ content, oid }: FileVersion): string {
  return oid ?? hashObject({ type: "blob", data: content });
}

interface DiffOptions extends PreviewLimits {
  budget: DiffBudget;
  loop: EventLoopYielder;
}

const nothing = new Uint8Array();

async function diffOf(
  { before, after }: FileVersions,
  options: DiffOptions,
): Promise<DiffHunk[] | { notShown: NotShown }> {
  const contents = [before?.content ?? nothing, after?.content ?? nothing] as const;
  const part = differingPart(...contents);
  const parts = [part.before, part.after];
  if (parts.some(({ length }) => length > options.maxFileBytes)) return { notShown: "too large" };
  const starts = contents.map((content) => content.subarray(0, options.maxFileBytes));
  if ([...starts, ...parts].some(isUnreadable)) return { notShown: "binary" };

  const hunks = diffLines(decode(part.before), decode(part.after), options.budget);
  return moveHunks(await runInTurns(hunks, options.loop), part);
}

/** Formats hunks with every character visible. */
async function formatHunks(hunks: readonly DiffHunk[], loop: EventLoopYielder): Promise<string> {
  const shown: string[] = [];
  for (const hunk of hunks) {
    shown.push(hunkHeader(hunk));
    for (const line of hunk.lines) {
      if (loop.isDue) await loop.turn();
      shown.push(line.startsWith("\\") ? line : line.charAt(0) + visibleLine(line.slice(1), wholeLine).join(""));
    }
  }
  return shown.join("\n");
}

/** Lines are wrapped by the front end. */
const wholeLine = Number.POSITIVE_INFINITY;

/** Counts unprintable bytes, so that a single NUL byte does not hide a file from the person who approves its change. */
function isUnreadable(content: Uint8Array): boolean {
  const sample = content.subarray(0, 8_000);
  let unprintable = 0;
  for (const byte of sample)
    if (byte < 0x09 || (byte > 0x0d && byte < 0x20 && byte !== 0x1b) || byte === 0x7f) unprintable += 1;
  if (!isUtf8(content) && isMore(invalidBytes(content), content)) return true;
  return isMore(unprintable, sample);
}

function isMore(unprintable: number, { length }: Uint8Array): boolean {
  return unprintable > Math.max(maxUnprintable.count, length * maxUnprintable.share);
}

function decode(content: Buffer): string {
  const text = content.toString("utf8");
  return text.includes("\uFFFD") ? decodeWithEscapes(content) : text;
}

// Bytes that are not UTF-8 become the surrogates U+DC80 to U+DCFF, which no valid text holds: `visibleLine` shows them.
function decodeWithEscapes(content: Buffer): string {
  const parts: string[] = [];
  let start = 0;
  for (let at = 0; at < content.length; ) {
    const length = sequenceLength(content, at);
    if (length === 0) {
      parts.push(content.toString("utf8", start, at), String.fromCharCode(0xdc00 + (content[at] ?? 0)));
      start = at + 1;
    }
    at += Math.max(1, length);
  }
  return [...parts, content.toString("utf8", start)].join("");
}

function invalidBytes(content: Uint8Array): number {
  let count = 0;
  for (let at = 0; at < content.length; ) {
    const length = sequenceLength(content, at);
    if (length === 0) count += 1;
    at += Math.max(1, length);
  }
  return count;
}

/** Returns the length of the valid UTF-8 sequence that begins here; 0 if there is none. */
function sequenceLength(content: Uint8Array, at: number): number {
  const first = content[at] ?? 0;
  if (first < 0x80) return 1;
  const length = first > 0xf4 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  for (let index = 1; index < length; index++) {
    if (((content[at + index] ?? 0) & 0xc0) !== 0x80) return 0;
  }
  // Rejects overlong forms, surrogates, and code points above the last one.
  const second = content[at + 1] ?? 0;
  const isExcluded =
    (first === 0xe0 && second < 0xa0) ||
    (first === 0xed && second > 0x9f) ||
    (first === 0xf0 && second < 0x90) ||
    (first === 0xf4 && second > 0x8f);
  return isExcluded ? 0 : length;
}

/** Returns a digest of changes, which does not depend on their order. */
export function digestOfChanges(changes: readonly FileChange[]): string {
  const sorted = changes.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  return createHash("sha256").update(canonicalJson(sorted)).digest("hex");
}
