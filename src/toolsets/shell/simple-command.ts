/** One word of a command, with its quotes removed. */
export interface CommandWord {
  text: string;
  /** False when the shell replaces a part of it: a variable, a substitution, a pattern. */
  fixed: boolean;
  /** True when it may expand to an option, or to several words. */
  mayBeOption: boolean;
  /** True when it may expand to any text, and so name any file. */
  unknown: boolean;
}

/** A program that a script starts. */
export interface SimpleCommand {
  words: CommandWord[];
  /** The variables it sets, or that are set for it; with their values where these are known. */
  assigned: { name: string; value: string | undefined; isExported: boolean }[];
  /** True when its output goes to a file. */
  writes: boolean;
  /** Files that are its input. */
  reads: CommandWord[];
  /** True when it has an input: a pipe, a file or a here-document. */
  hasInput: boolean;
  /** The command before it in its pipeline. */
  source?: SimpleCommand;
}

/** What a command does beyond the plain work of its program. */
export interface ProgramEffect {
  /** Completes "because …". */
  reason: string;
  /** The word that says so. A rule that includes this word allows it. */
  word: CommandWord | undefined;
}

/** The name of a command's program, without its folder. */
export function programName({ words: [program] }: Pick<SimpleCommand, "words">): string {
  return program?.text.slice(program.text.lastIndexOf("/") + 1) ?? "";
}

/** True for a path outside the repository and its sandbox: absolute, in a home folder, or above a folder. */
export function leavesTree(path: string): boolean {
  const isInside = /^\/(workspace|tmp)(\/|$)|^\/dev\/(null|stdin|stdout|stderr)$/.test(path);
  if (/^[~/]/.test(path) && !isInside) return true;
  // `.?` and `.*` match the folder above.
  return path.split("/").some((name) => name === ".." || /^\.[^/]*[*?[]/.test(name));
}
