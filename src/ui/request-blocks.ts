import { type FileChange, type Preview, type PreviewSection, textPreview } from "#domain/preview.ts";
import { pluralize } from "#text/pluralize.ts";
import { createRedactor, redactDeep } from "#text/redact.ts";
import {
  describeScripts,
  maxVisibleColumns,
  startLeftToRight,
  visibleLine,
  visibleName,
  wrapMark,
  wrapVisible,
} from "#text/visible-text.ts";

/** One block of an approval request, the same for all front ends. Every character in it is visible. */
export interface RequestBlock {
  kind: "text" | "diff" | "arguments";
  /** A title written by this program, with the names of files and tools escaped. */
  title: string;
  /** For a file: kind of change, modes, blob ids, size, and the reason why its content is not shown. */
  details: string | undefined;
  /** Wrapped lines; empty if no content is shown. */
  lines: string[];
}

export interface RequestContent {
  args: unknown;
  preview?: Preview | undefined;
}

/** Lays out a request as blocks, none of which can imitate another: each has its own title and lines. */
export function requestBlocks({ args, preview }: RequestContent): RequestBlock[] {
  const sections = (preview?.sections ?? []).filter((section) => section.kind !== "text" || section.text !== "");
  const hidesArguments = preview?.hidesArguments === true;
  const shownArgs = JSON.stringify(hidesArguments ? redactDeep(args, redact) : args, null, 2) ?? "undefined";
  const blocks = sections.map((section) => layOutSection(section, maxVisibleColumns));
  if (shownArgs === "{}" && blocks.length > 0) return blocks;
  const title = hidesArguments ? "Arguments, without what looks like a secret" : "Arguments";
  return [...blocks, textBlock("arguments", title, shownArgs, maxVisibleColumns)];
}

const redact = createRedactor([]);

/** Formats a preview as plain text, for programs that ask with a callback: the same blocks, one below the other. */
export function previewText(preview: Preview | undefined): string | undefined {
  if (!preview || preview.sections.length === 0) return undefined;
  const blocks = preview.sections.map((section) => layOutSection(section, Number.POSITIVE_INFINITY));
  return blocks
    .map(({ kind, title, details, lines }) => [kind === "text" ? undefined : title, details, ...lines])
    .map((lines) => lines.filter((line) => line !== undefined).join("\n"))
    .join("\n\n");
}

/** Converts the preview of a tool, which may be plain text. */
export function toPreview(given: Preview | string | undefined): Preview | undefined {
  if (typeof given !== "string") return given;
  return given.trim() === "" ? undefined : textPreview(given);
}

function layOutSection(section: PreviewSection, columns: number): RequestBlock {
  switch (section.kind) {
    case "text":
      return textBlock("text", section.title, section.text, columns);
    case "file": {
      const lines = section.diff === "" ? [] : section.diff.split("\n").flatMap((line) => wrapDiffLine(line, columns));
      return {
        kind: "diff",
        title: visibleName(section.change.path),
        details: describeChange(section.change),
        lines: startLeftToRight(lines),
      };
    }
    case "hidden-file": {
      const details = `${describeChange(section.change)}. Its content is not shown: ${section.reason}.`;
      return { kind: "diff", title: visibleName(section.change.path), details, lines: [] };
    }
  }
}

function textBlock(kind: RequestBlock["kind"], title: string, text: string, columns: number): RequestBlock {
  const lines = text
    .replace(/\n$/, "")
    .split("\n")
    .flatMap((line) => markWrapped(visibleLine(line, columns), ""));
  return { kind, title, details: undefined, lines: startLeftToRight(lines) };
}

/** Wraps a line of a diff. Each part keeps the `+`, `-` or space. */
function wrapDiffLine(line: string, columns: number): string[] {
  const marker = /^[ +-]/.exec(line)?.[0] ?? "";
  return markWrapped(wrapVisible(line.slice(marker.length), columns), marker).map((part, index) =>
    index === 0 ? marker + part : part,
  );
}

function markWrapped(parts: readonly string[], marker: string): string[] {
  return parts.map((part, index) => (index === 0 ? part : `${marker}${wrapMark} ${part}`));
}

function describeChange({ path, kind, oldMode, newMode, oldBlob, newBlob, size }: FileChange): string {
  const modes =
    oldMode && newMode && oldMode !== newMode ? `mode ${oldMode} → ${newMode}` : `mode ${newMode ?? oldMode}`;
  const special = describeMode(newMode);
  const blobs = [oldBlob, newBlob].filter((id) => id !== undefined).map((id) => id.slice(0, 10));
  const bytes = kind === "deleted" ? undefined : pluralize(size, "byte");
  const details = [kind, special, modes, `blob ${blobs.join(" → ")}`, bytes, describeScripts(path)];
  return details.filter(Boolean).join(", ");
}

function describeMode(mode: FileChange["newMode"]): string | undefined {
  if (mode === "100755") return "executable";
  return mode === "120000" ? "symbolic link" : undefined;
}
