import { badPatch, type FilePatch, type Hunk } from "./patch.ts";

const fileHeading = /^\*\*\* (Add|Update|Delete) File: (.+)$/;

/** Reads `*** Begin Patch` … `*** End Patch`: files by heading, hunks by `@@`, no line numbers. */
export function parseMarkedPatch(lines: readonly string[]): FilePatch[] {
  const begin = lines.findIndex((line) => line.trim() === "*** Begin Patch");
  const end = lines.findIndex((line) => line.trim() === "*** End Patch");
  if (end === -1) throw badPatch("it does not end with *** End Patch.");

  const files: FilePatch[] = [];
  for (const [index, line] of lines.slice(begin + 1, end).entries()) {
    const heading = fileHeading.exec(line.trimEnd());
    const file = files.at(-1);
    if (heading) files.push(newFile(heading[1] ?? "", (heading[2] ?? "").trim()));
    else if (file) readLine(file, line);
    else if (line.trim() !== "") throw badPatch(`line ${begin + index + 2} stands before the first file.`);
  }
  for (const file of files) checkFile(file);
  return files;
}

function newFile(action: string, path: string): FilePatch {
  if (action === "Delete") return { kind: "delete", path };
  return action === "Add" ? { kind: "create", path, hunks: [{ lines: [] }] } : { kind: "update", path, hunks: [] };
}

function readLine(file: FilePatch, line: string): void {
  if (file.kind === "delete") {
    if (line.trim() !== "") throw badPatch(`${file.path} is deleted, so no lines may follow.`);
    return;
  }
  const move = /^\*\*\* Move to: (.+)$/.exec(line.trimEnd());
  if (move && file.kind === "update") {
    file.moveTo = move[1]?.trim();
    return;
  }
  if (line.trim() === "*** End of File") return;
  if (file.kind === "update" && line.startsWith("@@")) {
    const anchor = line.replace(/^@@ ?/, "").replace(/ ?@@$/, "");
    file.hunks.push({ lines: [], ...(anchor.trim() === "" ? {} : { anchor }) });
    return;
  }
  if (file.hunks.length === 0) file.hunks.push({ lines: [] });
  addLine(file.hunks.at(-1), line, file);
}

function addLine(hunk: Hunk | undefined, line: string, file: FilePatch): void {
  const mark = line === "" ? " " : line.charAt(0);
  if (mark !== " " && mark !== "+" && mark !== "-") {
    throw badPatch(`a line of ${file.path} begins with neither space, - nor +: ${JSON.stringify(line.slice(0, 60))}`);
  }
  if (file.kind === "create" && mark !== "+") {
    if (line === "") return;
    throw badPatch(`${file.path} is new, so every line must begin with +.`);
  }
  hunk?.lines.push({ mark, text: line.slice(1) });
}

function checkFile(file: FilePatch): void {
  if (file.kind !== "update") return;
  // A blank line between two parts of the patch is no line of the file.
  for (const hunk of file.hunks) while (isBareBlank(hunk.lines.at(-1))) hunk.lines.pop();
  file.hunks = file.hunks.filter((hunk) => hunk.lines.some(({ mark }) => mark !== " "));
  if (file.hunks.length === 0 && file.moveTo === undefined) throw badPatch(`${file.path} has no changed lines.`);
}

function isBareBlank(line: Hunk["lines"][number] | undefined): boolean {
  return line !== undefined && line.mark === " " && line.text === "";
}
