import { badPatch, type FilePatch, type Hunk } from "./patch.ts";

const hunkHeading = /^@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))?)?(?: @@| *$)/;
const metaLine =
  /^(diff |index |old mode |new mode |new file mode |deleted file mode |similarity index |dissimilarity index |Binary files |GIT binary patch)/;

interface Draft {
  from?: string;
  to?: string;
  renameFrom?: string;
  renameTo?: string;
  deleted?: boolean;
  hunks: Hunk[];
}

/** What the heading of the current hunk still promises; undefined when it gave no counts. */
interface Promised {
  old: number;
  new: number;
}

/** Reads a unified diff, as git or a person writes it. Counts of lines that are wrong are not held against it. */
export function parseUnifiedDiff(lines: readonly string[], path: string | undefined): FilePatch[] {
  const drafts: Draft[] = path === undefined ? [] : [{ from: path, to: path, hunks: [] }];
  let promised: Promised | undefined;
  let hunk: Hunk | undefined;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const inside = promised !== undefined && promised.old > 0 && promised.new > 0;
    const heading = hunkHeading.exec(line);
    if (!inside && line.startsWith("--- ") && lines[at + 1]?.startsWith("+++ ")) {
      const draft = draftFor(drafts);
      draft.from = nameIn(line);
      draft.to = nameIn(lines[at + 1] ?? "");
      [hunk, promised] = [undefined, undefined];
      at++;
    } else if (!inside && heading) {
      hunk = { lines: [], ...(heading[1] === undefined ? {} : { oldStart: Number(heading[1]) }) };
      promised = heading[1] === undefined ? undefined : { old: Number(heading[2] ?? 1), new: Number(heading[3] ?? 1) };
      const draft = drafts.at(-1);
      if (!draft?.from) throw badPatch("a hunk stands before the name of its file (--- and +++).");
      draft.hunks.push(hunk);
    } else if (!inside && metaLine.test(line)) {
      [hunk, promised] = [undefined, undefined];
      readMeta(drafts, line);
    } else if (hunk) {
      readHunkLine(hunk, line, promised);
    } else {
      readRename(drafts.at(-1), line);
    }
  }
  return drafts.flatMap(finish);
}

/** The header of a file was begun by `diff --git`, or begins now. */
function draftFor(drafts: Draft[]): Draft {
  const last = drafts.at(-1);
  if (last && last.from === undefined && last.hunks.length === 0) return last;
  const draft: Draft = { hunks: [] };
  // A path given beside the patch is only for a patch that names none.
  if (drafts.length === 1 && last?.hunks.length === 0) drafts.pop();
  drafts.push(draft);
  return draft;
}

function readMeta(drafts: Draft[], line: string): void {
  if (/^(Binary files |GIT binary patch)/.test(line)) throw badPatch("it changes a binary file.");
  if (line.startsWith("diff ")) drafts.push({ hunks: [] });
  const draft = drafts.at(-1);
  if (draft && line.startsWith("deleted file mode ")) draft.deleted = true;
}

function readRename(draft: Draft | undefined, line: string): void {
  const rename = /^rename (from|to) (.+)$/.exec(line);
  if (!draft || !rename) return;
  if (rename[1] === "from") draft.renameFrom = unquote(rename[2] ?? "");
  else draft.renameTo = unquote(rename[2] ?? "");
}

function readHunkLine(hunk: Hunk, line: string, promised: Promised | undefined): void {
  if (line.startsWith("\\")) {
    if (hunk.lines.at(-1)?.mark !== "-") hunk.endsWithoutNewline = true;
    return;
  }
  const mark = line === "" ? " " : line.charAt(0);
  if (mark !== " " && mark !== "+" && mark !== "-") {
    throw badPatch(`a line of a hunk begins with neither space, - nor +: ${JSON.stringify(line.slice(0, 60))}`);
  }
  // A blank line after the last promised one belongs to the text around the patch.
  if (line === "" && promised && promised.old <= 0 && promised.new <= 0) return;
  if (promised && mark !== "+") promised.old--;
  if (promised && mark !== "-") promised.new--;
  hunk.lines.push({ mark, text: line.slice(1) });
}

function finish({ from, to, renameFrom, renameTo, deleted, hunks }: Draft): FilePatch[] {
  for (const hunk of hunks) trimEnd(hunk);
  if (from === undefined && renameFrom !== undefined && renameTo !== undefined) {
    return [{ kind: "update", path: renameFrom, moveTo: renameTo, hunks: [] }];
  }
  if (from === undefined || to === undefined) return [];
  const [old, next] = stripPrefixes(from, to);
  if (next === "/dev/null" || (deleted && old !== "/dev/null")) return [{ kind: "delete", path: old }];
  if (hunks.length === 0 && old === next) return [];
  if (old === "/dev/null") return [{ kind: "create", path: next, hunks }];
  return [{ kind: "update", path: old, hunks, ...(old === next ? {} : { moveTo: next }) }];
}

function trimEnd(hunk: Hunk): void {
  const isBareBlank = () => hunk.lines.at(-1)?.mark === " " && hunk.lines.at(-1)?.text === "";
  // Without numbers there is no telling a blank line of the file from the end of the patch.
  if (hunk.oldStart === undefined) while (isBareBlank()) hunk.lines.pop();
}

function stripPrefixes(from: string, to: string): [string, string] {
  const isGit =
    (from.startsWith("a/") || from === "/dev/null") && (to.startsWith("b/") || to === "/dev/null") && from !== to;
  return isGit ? [from.replace(/^a\//, ""), to.replace(/^b\//, "")] : [from, to];
}

function nameIn(line: string): string {
  return unquote(line.slice(4).replace(/\t.*$/, "").trim());
}

function unquote(name: string): string {
  if (!/^".*"$/.test(name)) return name;
  const bytes = name
    .slice(1, -1)
    .replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)));
  const plain = bytes.replace(/\\(["\\])/g, "$1");
  return bytes === name.slice(1, -1) ? plain : Buffer.from(plain, "latin1").toString("utf8");
}
