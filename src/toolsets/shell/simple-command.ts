/** One word of a command, with its quotes removed. */
export interface CommandWord {
  text: string;
  /** False if the shell replaces part of it: a variable, a substitution or a pattern. */
  fixed: boolean;
  /** True if it may expand to an option. */
  mayBeOption: boolean;
  /** True if it may expand to several words, or to none. */
  mayBeSeveral: boolean;
  /** True if it may expand to any text, and so name any file. */
  unknown: boolean;
}

/** A program that a script starts. */
export interface SimpleCommand {
  words: CommandWord[];
  /** The variables that it sets or that are set for it, with their values if known. */
  assigned: { name: string; value: string | undefined; isExported: boolean }[];
  /** True if its output goes to a file. */
  writes: boolean;
  /** The files it takes as input. */
  reads: CommandWord[];
  /** True if it has input: a pipe, a file or a here-document. */
  hasInput: boolean;
  /** The preceding command in its pipeline. */
  source?: SimpleCommand;
}

/** An effect of a command beyond its program's usual work. */
export interface ProgramEffect {
  /** Completes "because …". */
  reason: string;
  /** The word that causes the effect. A rule that includes this word allows it. */
  word: CommandWord | undefined;
}

/** Returns the name of a command's program, without its folder. */
export function programName({ words: [program] }: Pick<SimpleCommand, "words">): string {
  return program?.text.slice(program.text.lastIndexOf("/") + 1) ?? "";
}

/** True for a path outside the repository and its sandbox: absolute, in a home folder, or in a parent folder. */
export function leavesTree(path: string): boolean {
  const isInside = /^\/(workspace|tmp)(\/|$)|^\/dev\/(null|stdin|stdout|stderr)$/.test(path);
  if (/^[~/]/.test(path) && !isInside) return true;
  // `.?` and `.*` match the parent folder.
  return path.split("/").some((name) => name === ".." || /^\.[^/]*[*?[]/.test(name));
}
