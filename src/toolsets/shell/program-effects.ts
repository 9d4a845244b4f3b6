import { inCode } from "#text/visible-text.ts";
import { findAwkEffect, findSedEffect, findSqlEffect } from "./embedded-languages.ts";
import {
  codeRunners,
  expressionPrograms,
  interpreters,
  pathlessPrograms,
  readingPrograms,
  type Subcommands,
  separatingPrograms,
  shells,
  subcommands,
  type Wrapper,
  wrappers,
} from "./program-lists.ts";
import { type CommandWord, leavesTree, type ProgramEffect, programName, type SimpleCommand } from "./simple-command.ts";

/**
 * Returns an effect if a command starts another program, runs code that is not in the command, reaches the network, or
 * writes somewhere its name does not suggest. Returns undefined if it does none of these, and for unknown programs.
 */
export function effectOf(command: SimpleCommand): ProgramEffect | undefined {
  const name = programName(command);
  const args = command.words.slice(1);
  const [first] = args;
  if (args.length === 1 && first?.fixed && /^(--?version|--?help|-V)$/.test(first.text)) return undefined;

  const unseen = unseenCode(name, args);
  if (unseen) return unseen;
  const special = specialEffects.get(name);
  if (special) return special(args, command);
  const known = subcommands.get(name);
  if (known) return subcommandEffect(name, args, known);
  if (codeRunners.has(name)) return { reason: `${inCode(name)} can run other programs`, word: codeWord(name, args) };
  const wrapper = wrappers.get(name);
  if (wrapper) return wrapperEffect(name, args, wrapper);
  return readingPrograms.has(name) ? undefined : optionEffect(name, args);
}

/** Returns an effect unless it is certain which words are the wrapped command, which is judged separately. */
function wrapperEffect(
  name: string,
  args: readonly CommandWord[],
  { valued, flags, operands }: Wrapper,
): ProgramEffect | undefined {
  let left = operands;
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at];
    if (!word || word.mayBeOption) return describe(name, word);
    const { text } = word;
    if (/^[A-Za-z_]\w*=/.test(text) || text === "--") continue;
    if (!/^-./.test(text)) {
      if (left === 0) return undefined;
      if (word.mayBeSeveral) return severalWords(name, word);
      left -= 1;
      continue;
    }
    if (word.mayBeSeveral) return severalWords(name, word);
    const names = text.startsWith("--") ? [text.slice(2).split("=")[0] ?? ""] : [...text.slice(1)];
    for (const [index, option] of names.entries()) {
      if (valued.test(option)) {
        if (index === names.length - 1 && !text.includes("=")) at += 1;
        const value = args[at];
        if (value?.mayBeSeveral) return severalWords(name, value);
        break;
      }
      if (!flags.test(option)) return { reason: `${inCode(`${name} ${text.slice(0, 60)}`)} is not known here`, word };
    }
  }
  return undefined;
}

function severalWords(name: string, word: CommandWord): ProgramEffect {
  const text = inCode(word.text.slice(0, 60) || "the input of xargs");
  return { reason: `${text} may become several words, one of which ${inCode(name)} runs`, word };
}

/** True for a command that only reads files: it changes none and runs no other program. */
export function onlyReads(command: SimpleCommand): boolean {
  const name = programName(command);
  const args = command.words.slice(1);
  if (command.words[0]?.text !== name || command.writes) return false;
  if (name === "git") return readsGit(args, command);
  if (name === "set") return args.every(({ text, fixed }) => fixed && /^([-+][eux]*o?|pipefail)$/.test(text));
  if (!readingPrograms.has(name) || effectOf(command)) return false;
  // Without a folder, it goes to the home folder or the one before.
  if (name === "cd" && !args.some(({ text }) => !text.startsWith("-"))) return false;
  const changesFile = {
    sed: { short: "i", long: ["in-place"], valued: "ef" },
    yq: { short: "i", long: ["inplace", "in-place"] },
  };
  const options = name === "sed" || name === "yq" ? changesFile[name] : undefined;
  return !options || !riskyWord(args, options);
}

/** Returns the words of a command that may name files. */
export function pathWords(command: SimpleCommand): CommandWord[] {
  const name = programName(command);
  const args = command.words.slice(1);
  if (pathlessPrograms.has(name)) return command.reads;
  const skipped = expressionPrograms.has(name) ? expressionsOf(name, args) : [];
  const takesSeparator = separatingPrograms.has(name);
  const named = args.filter(
    (word, at) => !skipped.includes(word) && !(takesSeparator && isSeparator(word, args[at - 1])),
  );
  return [...named, ...command.reads];
}

/** True if a command prints nothing but paths of the repository. */
export function listsPaths(command: SimpleCommand): boolean {
  const name = programName(command);
  const args = command.words.slice(1);
  if (
    effectOf(command) ||
    command.writes ||
    pathWords(command).some(({ text, unknown }) => unknown || leavesTree(text))
  )
    return false;
  const has = (option: RegExp) => args.some(({ text }) => option.test(text));
  switch (name) {
    case "ls":
    case "fd":
    case "fdfind":
      return true;
    case "find":
      return !has(/^-(printf|ls|exec|ok)/);
    case "rg":
      return has(/^(-\w*l\w*|--files|--files-with-matches|--files-without-match)$/);
    case "git":
      return (
        has(/^(ls-files|status)$/) || (has(/^(diff|grep)$/) && has(/^(--name-only|-\w*l\w*|--files-with-matches)$/))
      );
    case "grep":
      if (has(/^(-\w*[lL]\w*|--files-with(out)?-match(es)?)$/)) return true;
      return filters(command) && !has(/^-\w*[onbc]/);
    case "sort":
    case "uniq":
    case "head":
    case "tail":
      return filters(command);
    default:
      return false;
  }
}

/** True for a filter, which prints lines of the preceding command, if that command lists paths. */
function filters({ source, words }: SimpleCommand): boolean {
  const operands = words.slice(1).filter(({ text }) => !/^-|^\d+$/.test(text));
  const isFilter = operands.length <= (programName({ words }) === "grep" ? 1 : 0);
  return isFilter && source !== undefined && listsPaths(source);
}

/** Returns the patterns and scripts among the arguments: those after `-e`, or else the first operand. */
function expressionsOf(name: string, args: readonly CommandWord[]): CommandWord[] {
  const before = (at: number) => args[at - 1]?.text ?? "";
  const end = args.findIndex(({ text }) => text === "--");
  const options = end === -1 ? args : args.slice(0, end + 1);
  // jq's -e has no value.
  const option = name === "jq" || name === "yq" ? /^$/ : /^-\w*e|^--(exp|reg)/;
  const given = options.filter((_, at) => option.test(before(at)) && /e$|^--(exp|reg)\w*$/.test(before(at)));
  if (options.some(({ text }) => option.test(text))) return given;
  if (args.some(({ text }) => /^(-\w*f|--file|--from-file)/.test(text))) return [];
  return args
    .filter(
      ({ text }, at) =>
        (!text.startsWith("-") || (end !== -1 && at > end)) &&
        !/^-([ABCmFvtgTL]|-arg|-argjson|-include|-exclude)$/.test(before(at)),
    )
    .slice(0, 1);
}

/** True for `-d /`, as used with cut, sort and awk. */
function isSeparator({ text }: CommandWord, before: CommandWord | undefined): boolean {
  return text === "/" && /^-([dtFs]|-delimiter|-separator|-field-separator)$/.test(before?.text ?? "");
}

/** Returns an effect for a shell or interpreter whose code is in a file or comes from its input. */
function unseenCode(name: string, args: readonly CommandWord[]): ProgramEffect | undefined {
  if (name === "." || name === "source") return { reason: `${inCode(name)} runs a file`, word: args[0] };
  if (name === "alias") {
    const defined = args.find(({ text }) => text.includes("="));
    return defined && { reason: "it defines an alias", word: undefined };
  }
  if (!shells.has(name) || shellScript(args)) return undefined;
  return {
    reason: `what ${inCode(name)} runs is not in the command`,
    word: args.find(({ text }) => !/^[-+]/.test(text)),
  };
}

/** Returns the script given to a shell with `-c`; undefined if it reads its commands from elsewhere. */
export function shellScript(args: readonly CommandWord[]): CommandWord | undefined {
  let isGiven = false;
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? "";
    if (text === "--" || text === "-") return isGiven ? args[at + 1] : undefined;
    if (!/^[-+]/.test(text)) return isGiven ? args[at] : undefined;
    if (/^-[a-zA-Z]*c/.test(text)) isGiven = true;
    if (/^([-+][a-zA-Z]*[oO]|--(rcfile|init-file))$/.test(text)) at += 1;
  }
  return undefined;
}

/** Returns the word that a rule must include to allow the code such a program runs. */
function codeWord(name: string, args: readonly CommandWord[]): CommandWord | undefined {
  const isFlag =
    interpreters.has(name) && /^(-|--)(c|e|m|r|p|E|n|x|eval|print|command|require|import)?$/.test(args[0]?.text ?? "");
  return isFlag ? args[1] : args[0];
}

interface RiskyOptions {
  /** Single-letter options. */
  short?: string;
  /** Long options, which may be abbreviated on the command line. */
  long?: readonly string[];
  /** Single-letter options whose value may follow in the same word. */
  valued?: string;
}

/** Returns the first word that is one of these options, or may expand to one. */
function riskyWord(args: readonly CommandWord[], { short = "", long = [], valued = "" }: RiskyOptions) {
  for (const [at, word] of args.entries()) {
    const { text, fixed, mayBeOption } = word;
    // Behind an option, it may be that option's value.
    if (fixed && text === "--" && !args[at - 1]?.text.startsWith("-")) return undefined;
    if (mayBeOption) return word;
    if (text.startsWith("--")) {
      const [name = ""] = text.slice(2).split("=");
      if (name.length > 0 && long.some((option) => option.startsWith(name))) return word;
    } else if (text.startsWith("-")) {
      const letters = [...text.slice(1)];
      const end = letters.findIndex((letter) => valued.includes(letter));
      if ((end === -1 ? letters : letters.slice(0, end)).some((letter) => short.includes(letter))) return word;
    }
  }
  return undefined;
}

type FindEffect = (args: readonly CommandWord[], command: SimpleCommand) => ProgramEffect | undefined;

function without(name: string, options: RiskyOptions): FindEffect {
  return (args) => describe(name, riskyWord(args, options));
}

function describe(name: string, word: CommandWord | undefined): ProgramEffect | undefined {
  if (!word) return undefined;
  const text = word.text.slice(0, 60);
  const isOption = !word.mayBeOption;
  const reason = isOption
    ? `${inCode(`${name} ${text}`)} can run other programs or write files`
    : `${inCode(text || "the input of xargs")} may become an option of ${inCode(name)}`;
  return { reason, word };
}

/** Option names that, in any program, suggest that another program is started or loaded. */
const tellingOption =
  /^--?(\w+-)*(exec|eval|command|cmd|rsh|shell|pager|editor|browser|hook|script|plugins?|loader|require|import|engine|preload|filter|wrapper|runner|interpreter)(-\w+)*(=|$)/i;
const shellPath = /(^|=)(\/(usr\/)?bin\/)?(ba|da|z|k|c|tc|fi)?sh(\s|$)/;

function optionEffect(name: string, args: readonly CommandWord[]): ProgramEffect | undefined {
  return describe(
    name,
    args.find(({ text }) => tellingOption.test(text) || shellPath.test(text)),
  );
}

function subcommandEffect(
  name: string,
  args: readonly CommandWord[],
  { allowed, alone, risky }: Subcommands,
): ProgramEffect | undefined {
  const [first, ...rest] = args;
  if (!first) return undefined;
  const reason = `${inCode(`${name} ${first.text.slice(0, 60)}`)} can run other programs`;
  // Without operands, it installs the dependencies in the manifest.
  const isBare = alone?.test(first.text) && rest.every(({ text, mayBeOption }) => text.startsWith("-") && !mayBeOption);
  if (!first.fixed || !(allowed.test(first.text) || isBare)) return { reason, word: first };
  return (
    describe(
      name,
      args.find(({ text, mayBeOption }) => mayBeOption || risky.test(text)),
    ) ?? optionEffect(name, rest)
  );
}

const archiver = (name: string, options: RiskyOptions): FindEffect => {
  const find = without(name, options);
  return (args, command) => {
    const remote = args.find(({ text }) => /^[\w.@-]+:(?!\/\/)/.test(text));
    if (remote) return { reason: `${inCode(remote.text.slice(0, 60))} is on another machine`, word: remote };
    // tar also accepts its first letters without a dash.
    const [first, ...rest] = args;
    const isOldStyle = name === "tar" && first !== undefined && /^[A-Za-z]/.test(first.text);
    const found = find(
      isOldStyle ? [{ ...first, text: `-${first.text.replaceAll("f", "")}` }, ...rest] : args,
      command,
    );
    return found && isOldStyle && found.word && !args.includes(found.word) ? { ...found, word: first } : found;
  };
};

/** For programs that read their first operand and write to the second. */
const oneOperand = (name: string, valued: string): FindEffect => {
  const isValue = new RegExp(`^-[${valued}]$`);
  return (args) => {
    const operands = args.filter(({ text }, at) => !/^-./.test(text) && !isValue.test(args[at - 1]?.text ?? ""));
    const second = operands.find((word, at) => at > 0 || word.mayBeSeveral);
    return second && { reason: `${inCode(name)} writes to its second file`, word: second };
  };
};

const readingGit =
  "status|log|diff|show|ls-files|ls-tree|rev-parse|rev-list|blame|annotate|shortlog|describe|grep|cat-file|diff-tree|merge-base|name-rev|show-ref|for-each-ref|count-objects|whatchanged|version";
const isReadingGit = new RegExp(`^(${readingGit})$`);
const isKnownGit = new RegExp(
  `^(${readingGit}|add|rm|mv|restore|switch|checkout|reset|commit|branch|tag|stash|merge|cherry-pick|revert|fetch|pull|push|remote|init|apply|am|clean|rebase|reflog|format-patch|notes)$`,
);
const riskyGit = [
  ...["ext-diff", "textconv", "upload-pack", "receive-pack", "exec", "open-files-in-pager", "output", "no-index"],
  ...["output-directory", "unsafe-paths", "directory", "template", "config", "filters", "strategy", "help", "editor"],
];

/** Returns git's subcommand and the words after it. Skips preceding options that only change where git looks. */
function gitSubcommand(args: readonly CommandWord[]): CommandWord[] {
  let at = 0;
  while (/^(--no-pager|-P|--no-optional-locks|--literal-pathspecs|-C)$/.test(args[at]?.text ?? "")) {
    at += args[at]?.text === "-C" ? 2 : 1;
  }
  return args.slice(at);
}

const findGitEffect: FindEffect = (args) => {
  const [subcommand, ...rest] = gitSubcommand(args);
  if (!subcommand) return undefined;
  const name = `git ${subcommand.text.slice(0, 60)}`;
  if (!subcommand.fixed || !isKnownGit.test(subcommand.text)) {
    return { reason: `${inCode(name)} can run other programs`, word: subcommand };
  }
  const short = { grep: "O", rebase: "x", merge: "s", pull: "s" }[subcommand.text] ?? "";
  const found = riskyWord(rest, { short, long: riskyGit, valued: short === "O" ? "eABCmf" : "mFX" });
  return describe(name, found ?? rest.find(({ text }) => /^ext::|ProxyCommand/i.test(text)));
};

function readsGit(args: readonly CommandWord[], command: SimpleCommand): boolean {
  const [subcommand, ...rest] = gitSubcommand(args);
  if (!subcommand?.fixed) return false;
  if (subcommand.text === "branch") {
    return rest.every(({ text, fixed }) => fixed && /^(--show-current|--list|-a|-r|-v|-vv|--all)$/.test(text));
  }
  return isReadingGit.test(subcommand.text) && findGitEffect(args, command) === undefined;
}

const plainCurl =
  /^(-[sSfLikIgv]+|--(silent|show-error|fail|location|head|include|compressed|verbose|fail-with-body)|-[mX]|--(max-time|connect-timeout|retry|request)|\d+|GET|HEAD|https?:\/\/[^@\s]+)$/;

const findCurlEffect: FindEffect = (args) => {
  const other = args.find(({ text, fixed }) => !fixed || !plainCurl.test(text));
  return other && { reason: `${inCode(`curl ${other.text.slice(0, 60)}`)} can send or write files`, word: other };
};

const findMakeEffect: FindEffect = (args) =>
  describe(
    "make",
    args.find(
      ({ text, mayBeOption }) =>
        mayBeOption || /=/.test(text) || /^-[a-zA-Z]*[fCIEoW]|^--(ev|f|mak|dir|inc|env|w)/.test(text),
    ),
  );

const findCompilerEffect: FindEffect = (args) =>
  describe(
    "the compiler",
    args.find(
      ({ text, mayBeOption }) =>
        mayBeOption || /^(-wrapper|-B|--?specs|-f(plugin|use-ld)|-X|@|-Wl,|-load|--config)/.test(text),
    ),
  );

const findDateEffect: FindEffect = (args) => {
  const isValue = (at: number) => /^(-[dfr]|--(date|file|reference))$/.test(args[at - 1]?.text ?? "");
  const set = args.find(
    ({ text, mayBeOption }, at) =>
      mayBeOption || /^-[Ruh]*s|^--s/.test(text) || (/^\d+(\.\d+)?$/.test(text) && !isValue(at)),
  );
  return set && { reason: "it sets the clock", word: set };
};

const findFindEffect: FindEffect = (args) =>
  describe(
    "find",
    args.find(({ text, mayBeOption }) => mayBeOption || /^-(fprint|fls|files0-from)/.test(text)),
  );

const specialEffects = new Map<string, FindEffect>(
  Object.entries({
    tar: archiver("tar", {
      short: "IFP",
      long: [
        ...["to-command", "checkpoint-action", "use-compress-program", "rsh-command", "rmt-command", "info-script"],
        ...["new-volume-script", "transform", "xform", "absolute-names"],
      ],
      valued: "fCXT",
    }),
    rsync: archiver("rsync", { short: "eM", long: ["rsh", "rsync-path", "daemon", "remote-option", "config"] }),
    zip: without("zip", { short: "T", long: ["test", "unzip-command"] }),
    unzip: without("unzip", { short: "K:" }),
    find: findFindEffect,
    fd: without("fd", { short: "xX", long: ["exec", "exec-batch"], valued: "eEtdcSj" }),
    fdfind: without("fdfind", { short: "xX", long: ["exec", "exec-batch"], valued: "eEtdcSj" }),
    rg: without("rg", { long: ["pre", "hostname-bin"], valued: "egtTmABCjMdfr" }),
    ag: without("ag", { long: ["pager"] }),
    sort: without("sort", {
      short: "oT",
      long: ["output", "compress-program", "files0-from", "random-source", "temporary-directory"],
      valued: "ktS",
    }),
    split: without("split", { long: ["filter"] }),
    shuf: without("shuf", { short: "o", long: ["output", "random-source"], valued: "in" }),
    uniq: oneOperand("uniq", "fsw"),
    xxd: oneOperand("xxd", "cglonsR"),
    tree: without("tree", { short: "oR", long: ["output"] }),
    install: without("install", { short: "s", long: ["strip", "strip-program"] }),
    sed: findSedEffect,
    gsed: findSedEffect,
    awk: findAwkEffect,
    gawk: findAwkEffect,
    mawk: findAwkEffect,
    nawk: findAwkEffect,
    sqlite3: findSqlEffect,
    git: findGitEffect,
    curl: findCurlEffect,
    make: findMakeEffect,
    gmake: findMakeEffect,
    mapfile: without("mapfile", { short: "C" }),
    readarray: without("readarray", { short: "C" }),
    gcc: findCompilerEffect,
    "g++": findCompilerEffect,
    cc: findCompilerEffect,
    "c++": findCompilerEffect,
    clang: findCompilerEffect,
    "clang++": findCompilerEffect,
    hash: without("hash", { short: "pl" }),
    jobs: without("jobs", { short: "x" }),
    diff3: without("diff3", { long: ["diff-program"] }),
    cloc: without("cloc", { long: ["extract-with", "config"] }),
    yq: without("yq", { short: "s", long: ["split-exp"] }),
    date: findDateEffect,
    file: without("file", { short: "C", long: ["compile"], valued: "eFfmP" }),
  }),
);
