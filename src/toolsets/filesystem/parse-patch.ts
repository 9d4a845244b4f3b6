import { parseMarkedPatch } from "./parse-marked-patch.ts";
import { parseUnifiedDiff } from "./parse-unified-diff.ts";
import { type FilePatch, invalidPatch } from "./patch.ts";

const maxCharacters = 1_000_000;

/**
 * Parses a unified diff or a `*** Begin Patch` patch, with or without a code fence around it. `path` names the file of a
 * unified diff that starts with its first hunk. Throws a ToolError for an invalid patch.
 */
export function parsePatch(patch: string, path?: string): FilePatch[] {
  if (patch.length > maxCharacters) throw invalidPatch(`it is longer than ${maxCharacters} characters.`);
  const lines = withoutFence(patch.replace(/\r\n/g, "\n").replace(/\n$/, "").split("\n"));
  const first = lines.find((line) => line.trim() !== "");
  const files = first?.trim() === "*** Begin Patch" ? parseMarkedPatch(lines) : parseUnifiedDiff(lines, path);
  if (files.length === 0) throw invalidPatch("it changes no file.");
  return files;
}

function withoutFence(lines: string[]): string[] {
  const first = lines.findIndex((line) => line.trim() !== "");
  if (!/^```\w*\s*$/.test(lines[first] ?? "")) return lines;
  const last = lines.findLastIndex((line) => line.trim() === "```");
  return lines.slice(first + 1, last > first ? last : undefined);
}
