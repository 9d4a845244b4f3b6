import { inCode } from "#text/visible-text.ts";
import { type Arguments, readArguments } from "./options.ts";
import { findKnownProgram } from "./programs.ts";
import { type CommandWord, literal, type SimpleCommand } from "./simple-command.ts";

/** Returns the commands that a command starts: with xargs, timeout, and `find -exec`. */
export function startedBy(command: SimpleCommand): SimpleCommand[] {
  const known = findKnownProgram(command.words);
  if (!known) return [];
  const { name, program, args } = known;
  if (name === "find") return readFind(args).started.map((words) => ({ ...command, words }));
  if (program.startsAfter === undefined) return [];
  const { started, values } = readArguments(name, args, program, false);
  if (started.length === 0) return [];
  if (name === "timeout") return [{ ...command, words: started }];
  return [{ ...command, words: withInput(started, command, values), reads: [], source: undefined }];
}

/** Returns the words of a command that xargs starts, with its input appended or in the place of a placeholder. */
function withInput(
  words: readonly CommandWord[],
  { source, reads }: SimpleCommand,
  options: Arguments["values"],
): CommandWord[] {
  // Other delimiters split a name, so that a part of it may be an absolute path.
  const isSplit = !["", "\\n", "\\0"].includes(options.get("d") ?? options.get("--delimiter") ?? "");
  const isListing = source !== undefined && reads.length === 0 && !isSplit && listsNames(source);
  const input: CommandWord = { text: "", kind: isListing ? "names" : "unknown" };
  const placeholder = options.get("I");
  // GNU's xargs ignores `-I` before `-n` and `-L`.
  const isAppended = placeholder === undefined || ["n", "L", "--max-args"].some((option) => options.has(option));
  const replaced = words.map((word): CommandWord => {
    if (word.text === placeholder) return input;
    return placeholder !== undefined && word.text.includes(placeholder) ? { ...word, kind: "unknown" } : word;
  });
  return isAppended ? [...replaced, input] : replaced;
}

const findFlags = new Set(
  `! ( ) , -not -a -and -o -or -true -false -empty -print -print0 -ls -prune -quit -depth -mount -xdev -daystart -readable
  -writable -executable -nouser -nogroup -H -L -P`.split(/\s+/),
);
const findTests = new Set(
  `-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -atime -ctime -mmin
  -amin -cmin -newer -maxdepth -mindepth -perm -user -group -links -inum -lname -ilname -samefile -printf`.split(/\s+/),
);

export interface FindCommand extends Pick<Arguments, "problem"> {
  /** The folders and files where it starts. */
  paths: CommandWord[];
  /** The commands that it starts. */
  started: CommandWord[][];
}

export function readFind(args: readonly CommandWord[]): FindCommand {
  const find: FindCommand = { paths: [], started: [] };
  const start = args.findIndex(({ text }) => /^[-!(,]/.test(text) && !/^-[HLP]$/.test(text));
  const starts = args.slice(0, start === -1 ? args.length : start).filter(({ text }) => !/^-[HLP]$/.test(text));
  find.paths.push(...starts);
  // Each name that it finds begins with the path where it starts.
  const folders = starts.length > 0 ? starts : [literal(".")];
  const found = folders.map(({ text }): CommandWord => ({ text: `${text}/*`, kind: "pattern" }));
  const fail = (word: CommandWord) => {
    find.problem ??= `${inCode(`find ${word.text.slice(0, 60)}`)} is not known to be harmless`;
  };
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] as CommandWord;
    if (starts.includes(word)) {
      if (word.kind !== "literal" && !/^[\w./]/.test(word.text)) fail(word);
    } else if (word.kind !== "literal") fail(word);
    else if (findTests.has(word.text)) {
      at += 1;
      const value = args[at];
      if (value?.kind !== "literal" || /^-[a-zA-Z]/.test(value.text)) fail(value ?? word);
      else if (word.text === "-newer" || word.text === "-samefile") find.paths.push(value);
    } else if (word.text === "-delete") find.started.push([literal("rm"), ...found]);
    else if (word.text === "-exec") {
      const end = endOfCommand(args, at + 1);
      if (end === undefined) fail(word);
      find.started.push(args.slice(at + 1, end).flatMap((part) => replaced(part, found)));
      at = end ?? args.length;
    } else if (!findFlags.has(word.text)) fail(word);
  }
  return find;
}

function endOfCommand(args: readonly CommandWord[], start: number): number | undefined {
  const end = args.findIndex(
    ({ text, kind }, at) =>
      at > start && kind === "literal" && (text === ";" || (text === "+" && args[at - 1]?.text === "{}")),
  );
  return end === -1 ? undefined : end;
}

function replaced(word: CommandWord, found: readonly CommandWord[]): CommandWord[] {
  if (word.text === "{}") return [...found];
  return [word.text.includes("{}") ? { ...word, kind: "unknown" } : word];
}

/** The arguments with which a program prints only names of files inside the repository, one in each line. */
const listings: Record<string, RegExp> = {
  ls: /^(-[1aAdrRStU]+|[^-].*)$/,
  find: /^(-(i?name|i?path|type|maxdepth|mindepth|not|o|a|newer|mtime|mmin|size|empty|perm|print0?|prune|i?regex)|[^-].*)$/s,
  fd: /^(-[HIsigFapLeEtd]+|--(extension|type|exclude|hidden)(=.*)?|[^-].*)$/s,
  rg: /^(-[FHIilNSsUuw]+|-[gtT]|--(files|files-with-matches|files-without-match|hidden|glob=.*|type=.*)|[^-].*)$/s,
  grep: /^(-[EFGhHiIlLnPrRsvwx]+|--(files-with(out)?-match(es)?|include=.*|exclude(-dir)?=.*)|[^-].*)$/s,
  "git ls-files": /^(-[cdomz]+|--(cached|deleted|others|modified|exclude-standard|)|[^-].*)$/s,
  "git status": /^(-s|--short|--porcelain)$/,
  "git diff": /^(--(name-only|cached|staged|diff-filter=\w+|)|[^-].*)$/s,
  "git grep": /^(-[EFGiIlnPvw]+|--(files-with-matches|name-only|cached|)|[^-].*)$/s,
};
/** An argument without which the program prints more. */
const needed: Record<string, RegExp> = {
  rg: /^(-\w*l\w*|--files(-with-matches|-without-match)?)$/,
  grep: /^(-\w*[lL]\w*|--files-with(out)?-match(es)?)$/,
  "git status": /^-/,
  "git diff": /^--name-only$/,
  "git grep": /^(-\w*l\w*|--files-with-matches|--name-only)$/,
};
/** The arguments with which a filter prints lines of its input as they are. */
const filters: Record<string, RegExp> = {
  sort: /^(-[urnfV]+)?$/,
  uniq: /^$/,
  head: /^(-n ?\d+|-\d+)?$/,
  tail: /^(-n ?\+?\d+|-\d+)?$/,
  grep: /^(-[viEFwx]+ )*[^-\s]\S*$/,
};

/** True if a command prints nothing but names of files in the repository. */
export function listsNames({ words, source, reads }: SimpleCommand): boolean {
  const { name = "", args = [] } = findKnownProgram(words) ?? {};
  if (args.some(({ kind }) => kind === "unknown" || kind === "names")) return false;
  const texts = args.map(({ text }) => text);
  // `git grep -l x 'HEAD^{/a b}'` prints the name of the revision before each name of a file.
  const [, ...operands] = texts.filter((text) => !text.startsWith("-"));
  if (operands.some((text) => /\s/.test(text))) return false;
  const [pattern, option] = [listings[name], needed[name]];
  const isListing = pattern !== undefined && texts.every((text) => pattern.test(text));
  if (isListing && (!option || texts.some((text) => option.test(text)))) return true;
  const isFilter = filters[name]?.test(texts.join(" ")) ?? false;
  return isFilter && reads.length === 0 && source !== undefined && listsNames(source);
}
