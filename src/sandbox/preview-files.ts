import type { FileChange, NotShown, PreviewSection } from "#domain/preview.ts";
import type { DiffHunk } from "#domain/result.ts";
import { visibleLine } from "#text/visible-text.ts";
import { type FileVersion, modeOf } from "./diff-file.ts";
import { DiffBudget, diffLines, hunkHeader } from "./diff-lines.ts";
import { EventLoopYielder } from "./event-loop.ts";
import { hashObject } from "./git-objects.ts";

/** A file at the base and as it would be; undefined where it does not exist. */
export interface FileVersions {
  path: string;
  before: FileVersion | undefined;
  after: FileVersion | undefined;
}

export interface PreviewLimits {
  /** The maximum size of a version of a file whose content is shown, in bytes. */
  maxFileBytes: number;
}

const defaultLimits: PreviewLimits = { maxFileBytes: 512_000 };

/** A file with more unprintable bytes than these is not shown; with fewer, each is shown as an escape. */
const maxUnprintable = { count: 16, share: 0.1 };

/**
 * The sections that show these file changes to a person. Every file is listed with kind, modes, blob ids and size, also
 * where its content cannot be shown.
 */
export async function previewFiles(
  files: readonly FileVersions[],
  limits: PreviewLimits = defaultLimits,
): Promise<PreviewSection[]> {
  const budget = new DiffBudget();
  const loop = new EventLoopYielder();
  const sections: PreviewSection[] = [];
  for (const file of files) {
    sections.push(previewFile(file, { budget, ...limits }));
    if (loop.isDue) await loop.turn();
  }
  return sections;
}

function previewFile(file: FileVersions, options: DiffOptions): PreviewSection {
  const change = fileChange(file);
  const diff = diffOf(file, options);
  return typeof diff === "string"
    ? { kind: "file", change, diff }
    : { kind: "hidden-file", change, reason: diff.notShown };
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
}

function diffOf({ before, after }: FileVersions, options: DiffOptions): string | { notShown: NotShown } {
  const versions = [before, after].filter((version) => version !== undefined);
  if (versions.some(({ content }) => content.length > options.maxFileBytes)) return { notShown: "too large" };
  if (versions.some(({ content }) => isUnreadable(content))) return { notShown: "binary" };

  const [old, now] = [textOf(before), textOf(after)];
  return diffLines(old, now, options.budget).flatMap(formatHunk).join("\n");
}

/** Formats a hunk with every character visible. */
function formatHunk(hunk: DiffHunk): string[] {
  const lines = hunk.lines.map((line) =>
    line.startsWith("\\") ? line : line.charAt(0) + visibleLine(line.slice(1), Number.POSITIVE_INFINITY).join(""),
  );
  return [hunkHeader(hunk), ...lines];
}

/** Counts unprintable bytes, so that a single NUL byte does not hide a file from the person who approves its change. */
function isUnreadable(content: Uint8Array): boolean {
  const sample = content.subarray(0, 8_000);
  let unprintable = 0;
  for (const byte of sample)
    if (byte < 0x09 || (byte > 0x0d && byte < 0x20 && byte !== 0x1b) || byte === 0x7f) unprintable += 1;
  if (Buffer.from(sample).toString("utf8").includes("\uFFFD")) unprintable += invalidBytes(sample);
  return unprintable > Math.max(maxUnprintable.count, sample.length * maxUnprintable.share);
}

function textOf(version: FileVersion | undefined): string {
  const text = Buffer.from(version?.content ?? []).toString("utf8");
  return text.includes("\uFFFD") ? decodeWithEscapes(version?.content ?? new Uint8Array()) : text;
}

// Bytes that are not UTF-8 become the surrogates U+DC80 to U+DCFF, which no valid text holds: `visibleLine` shows them.
function decodeWithEscapes(content: Uint8Array): string {
  let text = "";
  for (let at = 0; at < content.length; ) {
    const length = sequenceLength(content, at);
    text +=
      length > 0
        ? Buffer.from(content.subarray(at, at + length)).toString("utf8")
        : String.fromCharCode(0xdc00 + (content[at] ?? 0));
    at += Math.max(1, length);
  }
  return text;
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

/** The bytes of the valid UTF-8 sequence that begins here; 0 where none does. */
function sequenceLength(content: Uint8Array, at: number): number {
  const first = content[at] ?? 0;
  if (first < 0x80) return 1;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (length === 0 || at + length > content.length) return 0;
  return Buffer.from(content.subarray(at, at + length))
    .toString("utf8")
    .includes("\uFFFD")
    ? 0
    : length;
}
