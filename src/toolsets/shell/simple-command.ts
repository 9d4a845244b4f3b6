/**
 * One word of a command, with its quotes removed.
 *
 * - `literal`: exactly this text.
 * - `pattern`: the names of files that match a pattern. Each begins with the text before the first `*`, `?` or `[`.
 * - `names`: any number of words, made from names of files in the repository. Names with spaces are split, so a word may
 *   be an option.
 * - `unknown`: any number of words of any text.
 */
export interface CommandWord {
  text: string;
  kind: "literal" | "pattern" | "names" | "unknown";
}

/** A program that a script starts, with its arguments. */
export interface SimpleCommand {
  /** The program is the first word. */
  words: CommandWord[];
  /** True if its output goes to a file. */
  writes: boolean;
  /** The files it takes as input. */
  reads: CommandWord[];
  /** True if it has input: a pipe or a file. */
  hasInput: boolean;
  /** The command whose output is its input. */
  source?: SimpleCommand | undefined;
}

export function literal(text: string): CommandWord {
  return { text, kind: "literal" };
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
