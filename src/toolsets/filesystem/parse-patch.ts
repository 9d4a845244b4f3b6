import { ToolError } from "#domain/errors.ts";
import { unquotePath } from "#text/quoted-path.ts";

const maxCharacters = 1_000_000;

/**
 * Parses a unified diff or a `*** Begin Patch` patch, with or without a code fence around it. `path` names the file of a
 * unified diff that starts with its first hunk. Throws a ToolError for an invalid patch.
 */
export function parsePatch(patch: string, path?: string): FilePatch[] {
  if (patch.length > maxCharacters) throw invalidPatch(`it is longer than ${maxCharacters} characters.`);
  const lines = withoutFence(withoutOwnEndings(patch.replace(/\n$/, "").split("\n")));
  const first = lines.find((line) => line.trim() !== "");
  const isMarked = first?.trim() === "*** Begin Patch";
  const files = isMarked ? parseMarkedPatch(lines.map(withoutReturn)) : parseUnifiedDiff(lines, path);
  if (files.length === 0) throw invalidPatch("it changes no file.");
  return files;
}

/** Removes the carriage returns of a patch that has one in every line: they are not those of its files. */
function withoutOwnEndings(lines: string[]): string[] {
  return lines.slice(0, -1).every((line) => line.endsWith("\r")) ? lines.map(withoutReturn) : lines;
}

function withoutReturn(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
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

const numberedHeading = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))?(?: @@| *$)/;
const anyHeading = /^@@(?:$| )/;
const extendedHeader =
  /^(old mode|new mode|new file mode|deleted file mode|rename from|rename to|copy from|copy to) (.+)$/;
/** The end of a patch that git formatted as an email: a signature with git's version. */
const signature = /^\d+\.\d+/;
const nextMail = /^From [0-9a-f]{7,64} /;

/** The parsed part of the diff for one file. */
interface Draft {
  /** The names in `diff --git`. */
  git?: { old: string; new: string };
  /** The names in `---` and `+++`. */
  header?: { old: string; new: string };
  /** The values of git's extended headers by name. */
  extended: Map<string, string>;
  hunks: PatchHunk[];
}

/** Parses a unified diff by git or a model. Line markers decide where hunks end; wrong counts are ignored. */
function parseUnifiedDiff(lines: readonly string[], path: string | undefined): FilePatch[] {
  const parser = new UnifiedDiffParser(lines, path);
  return parser.parse().flatMap(toFilePatch);
}

class UnifiedDiffParser {
  /** The lines with the carriage returns of the files. */
  readonly #given: readonly string[];
  readonly #lines: readonly string[];
  readonly #drafts: Draft[] = [];
  #hunk: PatchHunk | undefined;
  /** The number of lines that are still missing, according to the hunk's heading; undefined for a hunk without numbers. */
  #announced: { old: number; new: number } | undefined;

  constructor(lines: readonly string[], path: string | undefined) {
    this.#given = lines;
    this.#lines = lines.map(withoutReturn);
    if (path !== undefined) this.#drafts.push({ header: { old: path, new: path }, extended: new Map(), hunks: [] });
  }

  parse(): Draft[] {
    for (let at = 0; at < this.#lines.length; at++) {
      const line = this.#lines[at] ?? "";
      if (this.#hunk && this.#continuesHunk(at)) this.#addLine(this.#hunk, this.#given[at] ?? "");
      else if (this.#isFileHeader(at)) this.#startHeader(line, this.#lines[++at] ?? "");
      else if (anyHeading.test(line)) this.#startHunk(line);
      else this.#readOther(line);
    }
    this.#endHunk();
    return this.#drafts;
  }

  #isFileHeader(at: number): boolean {
    return (this.#lines[at]?.startsWith("--- ") && this.#lines[at + 1]?.startsWith("+++ ")) ?? false;
  }

  #continuesHunk(at: number): boolean {
    const line = this.#lines[at] ?? "";
    const { old, new: added } = this.#announced ?? { old: Number.NaN, new: Number.NaN };
    const isComplete = old <= 0 && added <= 0;
    if (line === "") return !isComplete;
    if (!/^[ +\-\\]/.test(line)) return false;
    if (line === "-- " && signature.test(this.#lines[at + 1] ?? "")) return false;
    if (!this.#isFileHeader(at) || line.startsWith("\\")) return true;
    // A removed "-- x" above an added "++ y" looks like the header of the next file.
    if (!this.#announced || isComplete) return false;
    const startsHunk = anyHeading.test(this.#lines[at + 2] ?? "");
    return !startsHunk || (old === 1 && added === 1);
  }

  #addLine(hunk: PatchHunk, given: string): void {
    const line = withoutReturn(given);
    if (line.startsWith("\\")) {
      if (hunk.lines.at(-1)?.mark !== "-") hunk.endsWithoutNewline = true;
      return;
    }
    const mark = line === "" ? " " : (line.charAt(0) as " " | "+" | "-");
    if (this.#announced && mark !== "+") this.#announced.old--;
    if (this.#announced && mark !== "-") this.#announced.new--;
    hunk.lines.push({ mark, text: line.slice(1), ...(given !== line && { ending: "\r\n" }) });
  }

  #startHeader(oldLine: string, newLine: string): void {
    this.#endHunk();
    const last = this.#drafts.at(-1);
    const header = { old: nameIn(oldLine), new: nameIn(newLine) };
    if (last?.git && !last.header) {
      last.header = header;
      return;
    }
    // A path given with the patch applies only to a patch that names no file.
    if (this.#drafts.length === 1 && !last?.git && last?.hunks.length === 0) this.#drafts.pop();
    this.#drafts.push({ header, extended: new Map(), hunks: [] });
  }

  #startHunk(line: string): void {
    this.#endHunk();
    const draft = this.#drafts.at(-1);
    if (!draft?.header) throw invalidPatch("a hunk comes before the name of its file (--- and +++).");
    const numbers = numberedHeading.exec(line);
    const anchor = line.replace(/^@@ ?/, "").replace(/ ?@@$/, "").trim();
    this.#hunk = { lines: [] };
    if (numbers) {
      this.#hunk.oldStart = Number(numbers[1]);
      this.#announced = { old: Number(numbers[2] ?? 1), new: Number(numbers[3] ?? 1) };
    } else {
      this.#announced = undefined;
      if (anchor !== "" && !/^(?:\.\.\.|…)$/.test(anchor)) this.#hunk.anchors = [anchor];
    }
    draft.hunks.push(this.#hunk);
  }

  #readOther(line: string): void {
    if (line.startsWith("diff --git ") || line.startsWith("diff ")) {
      this.#endHunk();
      this.#drafts.push({ git: gitNames(line), extended: new Map(), hunks: [] });
      return;
    }
    if (/^(?:Binary files |GIT binary patch)/.test(line)) throw invalidPatch("it changes a binary file.");
    if (line.startsWith("@@@ ")) throw invalidPatch("it is a combined diff of a merge.");
    const extended = extendedHeader.exec(line);
    if (extended) {
      this.#endHunk();
      this.#drafts.at(-1)?.extended.set(extended[1] ?? "", unquotePath(extended[2] ?? ""));
      return;
    }
    // Text before and between files, such as the email of git format-patch, is skipped. Inside a hunk it is an error.
    const endsHunk = line === "" || line === "-- " || nextMail.test(line) || line.startsWith("index ");
    if (this.#hunk && !endsHunk) {
      throw invalidPatch(`a line of a hunk begins with neither space, - nor +: ${JSON.stringify(line.slice(0, 60))}`);
    }
    if (line !== "") this.#endHunk();
  }

  #endHunk(): void {
    // After wrong counts, a blank line may be the end of the patch or a line of the file.
    const isCounted = this.#announced?.old === 0 && this.#announced.new === 0;
    if (this.#hunk && !isCounted) trimBlankEnd(this.#hunk);
    this.#hunk = undefined;
    this.#announced = undefined;
  }
}

/** Returns the names in `diff --git a/x b/x`. They are empty if they differ and are unquoted; other lines then give them. */
function gitNames(line: string): Draft["git"] {
  const names = line.replace(/^diff (?:--git )?/, "");
  const quoted = /^("(?:[^"\\]|\\.)*"|\S+) ("(?:[^"\\]|\\.)*"|\S+)$/.exec(names);
  if (quoted) return { old: unquotePath(quoted[1] ?? ""), new: unquotePath(quoted[2] ?? "") };
  const half = (names.length - 1) / 2;
  const [old, next] = [names.slice(0, half), names.slice(half + 1)];
  return old.slice(2) === next.slice(2) ? { old, new: next } : { old: "", new: "" };
}

function toFilePatch(draft: Draft): FilePatch[] {
  const { extended, hunks } = draft;
  const executable = executableOf(extended);
  const mode = executable === undefined ? {} : { executable };

  const [copyFrom, copyTo] = [extended.get("copy from"), extended.get("copy to")];
  if (copyFrom !== undefined && copyTo !== undefined) {
    return [{ kind: "copy", path: copyFrom, to: copyTo, hunks, ...mode }];
  }
  const [renameFrom, renameTo] = [extended.get("rename from"), extended.get("rename to")];
  if (renameFrom !== undefined && renameTo !== undefined) {
    return [{ kind: "update", path: renameFrom, moveTo: renameTo, hunks, ...mode }];
  }

  const names = draft.header ?? draft.git;
  if (!names || names.new === "") throw invalidPatch("it does not name the file that it changes.");
  const [old, next] = withoutPrefixes(names);
  if (next === "/dev/null" || extended.has("deleted file mode")) {
    return [{ kind: "delete", path: old === "/dev/null" ? next : old, hunks }];
  }
  if (old === "/dev/null" || extended.has("new file mode")) return [{ kind: "create", path: next, hunks, ...mode }];
  if (hunks.length === 0 && executable === undefined && old === next) {
    throw invalidPatch(`it has no hunk for ${next}.`);
  }
  return [{ kind: "update", path: old, hunks, ...(old !== next && { moveTo: next }), ...mode }];
}

function executableOf(extended: Draft["extended"]): boolean | undefined {
  const mode = extended.get("new file mode") ?? extended.get("new mode");
  if (mode === undefined) return undefined;
  if (mode.startsWith("12")) throw invalidPatch("it creates a symbolic link, which no tool can.");
  if (mode.startsWith("16")) throw invalidPatch("it changes a submodule, which no tool can.");
  return mode.endsWith("755");
}

function withoutPrefixes({ old, new: next }: { old: string; new: string }): [string, string] {
  const isGit =
    (old.startsWith("a/") || old === "/dev/null") && (next.startsWith("b/") || next === "/dev/null") && old !== next;
  return isGit ? [old.replace(/^a\//, ""), next.replace(/^b\//, "")] : [old, next];
}

function nameIn(line: string): string {
  return unquotePath(line.slice(4).replace(/\t.*$/, "").trim());
}

interface PatchLine {
  mark: " " | "+" | "-";
  text: string;
  /** Given if the line itself has this ending, and not only the patch. */
  ending?: "\r\n";
}

/** One part of a file's change, with its old and new lines as a list of marked lines. */
export interface PatchHunk {
  lines: PatchLine[];
  /** The first old line, from 1, according to the patch. It may be stale. */
  oldStart?: number;
  /** Lines above the hunk that locate it, outermost first, such as the headers of a class and of a method. */
  anchors?: string[];
  /** True if the old lines are the last ones of the file. */
  isAtEnd?: boolean;
  /** True if the new text ends without a line ending. */
  endsWithoutNewline?: boolean;
}

/** The change of one file. `executable` is undefined if the patch does not change the mode. */
export type FilePatch =
  | { kind: "update"; path: string; moveTo?: string; hunks: PatchHunk[]; executable?: boolean }
  | { kind: "create"; path: string; hunks: PatchHunk[]; executable?: boolean }
  | { kind: "copy"; path: string; to: string; hunks: PatchHunk[]; executable?: boolean }
  | { kind: "delete"; path: string; hunks: PatchHunk[] };

/** Removes blank context lines at the end of a hunk, which may belong to the text around the patch. */
function trimBlankEnd(hunk: PatchHunk): void {
  while (hunk.lines.at(-1)?.mark === " " && hunk.lines.at(-1)?.text === "") hunk.lines.pop();
}

function invalidPatch(problem: string): ToolError {
  return new ToolError(`The patch is not valid: ${problem}`, {
    code: "INVALID_ARGUMENTS",
    suggestion:
      "Give a unified diff (--- a/path, +++ b/path, @@ -1,2 +1,2 @@, lines marked with space, - or +) or a patch from *** Begin Patch to *** End Patch.",
  });
}
