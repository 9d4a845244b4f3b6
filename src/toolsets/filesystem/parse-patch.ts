import { parseMarkedPatch } from "./parse-marked-patch.ts";
import { parseUnifiedDiff } from "./parse-unified-diff.ts";
import { badPatch, type FilePatch } from "./patch.ts";

const longestPatch = 1_000_000;

/**
 * Reads a unified diff or a `*** Begin Patch` patch, with or without a code fence around it. `path` names the file of
 * a unified diff that begins with its first hunk. Throws a ToolError that says what is wrong.
 */
export function parsePatch(patch: string, path?: string): FilePatch[] {
  if (patch.length > longestPatch) throw badPatch(`it is longer than ${longestPatch} characters.`);
  const lines = withoutFence(patch.replace(/\r\n/g, "\n").replace(/\n$/, "").split("\n"));
  const first = lines.find((line) => line.trim() !== "");
  const files = first?.trim() === "*** Begin Patch" ? parseMarkedPatch(lines) : parseUnifiedDiff(lines, path);
  if (files.length === 0) throw badPatch("it changes no file.");
  return files;
}

function withoutFence(lines: string[]): string[] {
  const first = lines.findIndex((line) => line.trim() !== "");
  if (!/^```\w*\s*$/.test(lines[first] ?? "")) return lines;
  const last = lines.findLastIndex((line) => line.trim() === "```");
  return lines.slice(first + 1, last > first ? last : undefined);
}
