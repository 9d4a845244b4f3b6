import { parseUnifiedDiff } from "./parse-unified-diff.ts";
import { type FilePatch, invalidPatch, type PatchHunk, trimBlankEnd } from "./patch.ts";

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

const fileHeading = /^\*\*\* (Add|Update|Delete) File: (.+)$/;

/** Parses `*** Begin Patch` … `*** End Patch`: a heading for each file, hunks marked by `@@`, no line numbers. */
function parseMarkedPatch(lines: readonly string[]): FilePatch[] {
  const begin = lines.findIndex((line) => line.trim() === "*** Begin Patch");
  const end = lines.findIndex((line) => line.trim() === "*** End Patch");
  if (end === -1) throw invalidPatch("it does not end with *** End Patch.");

  const files: FilePatch[] = [];
  for (const [index, line] of lines.slice(begin + 1, end).entries()) {
    const heading = fileHeading.exec(line.trimEnd());
    const file = files.at(-1);
    if (heading) files.push(newFile(heading[1] ?? "", (heading[2] ?? "").trim()));
    else if (file) readLine(file, line);
    else if (line.trim() !== "") throw invalidPatch(`line ${begin + index + 2} comes before the first file.`);
  }
  for (const file of files) checkFile(file);
  return files;
}

function newFile(action: string, path: string): FilePatch {
  if (action === "Delete") return { kind: "delete", path, hunks: [] };
  return action === "Add" ? { kind: "create", path, hunks: [{ lines: [] }] } : { kind: "update", path, hunks: [] };
}

function readLine(file: FilePatch, line: string): void {
  if (file.kind === "delete") {
    if (line.trim() !== "") throw invalidPatch(`${file.path} is deleted, so no lines may follow.`);
    return;
  }
  const move = /^\*\*\* Move to: (.+)$/.exec(line.trimEnd());
  if (move && file.kind === "update") {
    file.moveTo = move[1]?.trim();
    return;
  }
  if (line.trim() === "*** End of File") {
    const last = file.hunks.at(-1);
    if (last && file.kind === "update") last.isAtEnd = true;
    return;
  }
  if (file.kind === "update" && line.startsWith("@@")) {
    addHunk(file.hunks, line.replace(/^@@ ?/, "").replace(/ ?@@$/, ""));
    return;
  }
  if (file.hunks.length === 0) file.hunks.push({ lines: [] });
  addLine(file.hunks.at(-1), line, file);
}

/** Consecutive headings are nested anchors of one hunk. */
function addHunk(hunks: PatchHunk[], anchor: string): void {
  const last = hunks.at(-1);
  const anchors = anchor.trim() === "" ? [] : [anchor];
  if (last && last.lines.length === 0 && last.anchors) last.anchors.push(...anchors);
  else hunks.push({ lines: [], ...(anchors.length > 0 && { anchors }) });
}

function addLine(hunk: PatchHunk | undefined, line: string, file: FilePatch): void {
  const mark = line === "" ? " " : line.charAt(0);
  if (mark !== " " && mark !== "+" && mark !== "-") {
    throw invalidPatch(
      `a line of ${file.path} begins with neither space, - nor +: ${JSON.stringify(line.slice(0, 60))}`,
    );
  }
  if (file.kind === "create" && mark !== "+") {
    if (line === "") return;
    throw invalidPatch(`${file.path} is new, so every line must begin with +.`);
  }
  hunk?.lines.push({ mark, text: line.slice(1) });
}

function checkFile(file: FilePatch): void {
  if (file.kind !== "update") return;
  for (const hunk of file.hunks) trimBlankEnd(hunk);
  file.hunks = file.hunks.filter((hunk) => hunk.lines.some(({ mark }) => mark !== " "));
  if (file.hunks.length === 0 && file.moveTo === undefined) throw invalidPatch(`${file.path} has no changed lines.`);
}
