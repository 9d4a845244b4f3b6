import { inCode } from "#text/visible-text.ts";
import { type CommandWord, leavesTree } from "./simple-command.ts";

/** The options and operands that a program is allowed to have. All others ask. */
export interface ProgramSyntax {
  /** True if it only reads, with these options. */
  reads: boolean;
  /**
   * Its options: `abc` are letters without a value, `n:` and `--lines:` take a value, `f/` and `--file/` the path of a
   * file to read, `e!` and `--regexp!` a pattern or script in place of the first operand, `--color?` may have a value,
   * and `--arg::` takes two. `#` means `-20`. `f=--force` are two names of one option.
   */
  options: ReadonlyMap<string, OptionKind>;
  /** Options with which it also changes files. They need a rule that allows the program. */
  changing: ReadonlyMap<string, OptionKind>;
  /** The options that have several names, such as `-f` and `--force`. */
  spellings: readonly (readonly string[])[];
  /** The form that the values of its options must have. */
  values?: RegExp;
  /** Its operands: paths, any text, none, or only what matches. */
  operands: "paths" | "text" | "none" | RegExp;
  /** The operands with which it changes files. */
  changingOperands?: RegExp;
  /** The first operand is a pattern or script, unless an option gives it. A script has to pass the check. */
  first?: "pattern" | RegExp | ((script: string) => boolean);
  /** Options with which the first operand is an ordinary one. */
  withoutPattern?: readonly string[];
  /** True if it does not parse options as getopt does: each option is a word of its own, and so is its value. */
  separateOptions?: boolean;
  minOperands?: number;
  maxOperands?: number;
  /**
   * True if none of its options writes a file or runs a program, so words that may be options do no harm. If its operands
   * are text, it reads no files either, and may have any words.
   */
  harmless?: boolean;
  /** For a program that starts another one: the number of operands before it. */
  startsAfter?: number;
}

type OptionKind = "flag" | "value" | "pair" | "path" | "script" | "optional";

const kindsBySuffix: Record<string, OptionKind> = {
  "": "flag",
  ":": "value",
  "::": "pair",
  "/": "path",
  "!": "script",
  "?": "optional",
};

/** Parses the notation of `ProgramSyntax.options`. */
export function optionsOf(text: string): ReadonlyMap<string, OptionKind> {
  const found = [...text.matchAll(/(--[\w-]+|[\w#])(::|[:/!?]?)/g)];
  return new Map(found.map(([, name = "", suffix = ""]) => [name, kindsBySuffix[suffix] ?? "flag"]));
}

/** Parses the names of the options that have several. */
export function spellingsOf(text: string): string[][] {
  const groups = text.split(/\s+/).filter((group) => group.includes("="));
  return groups.map((group) => {
    const names = group.replace(/[:/!?]/g, "").split("=");
    return names.map((name) => (name.startsWith("-") ? name : `-${name}`));
  });
}

export interface Arguments {
  /** The words of the program that it starts. */
  started: CommandWord[];
  values: ReadonlyMap<string, string>;
  /** The reason its options or operands may do more than the program's usual work. */
  problem?: string | undefined;
  /** The reason it may read or write outside the repository. */
  outsideProblem?: string | undefined;
}

/** True for an option whose value is the next word. */
export function takesNext(text: string, { options }: ProgramSyntax): boolean {
  const kind = /^-\w|^--\w/.test(text) ? options.get(text.startsWith("--") ? text : text.slice(-1)) : undefined;
  return kind !== undefined && kind !== "flag" && kind !== "optional";
}

/** Reads the arguments of a program by the rules of GNU's getopt. Abbreviated options are not known. */
export function readArguments(
  name: string,
  words: readonly CommandWord[],
  program: ProgramSyntax,
  mayChange: boolean,
): Arguments {
  const reader = new ArgumentReader(name, words, program, mayChange);
  try {
    reader.read();
    return { started: reader.started, values: reader.values, outsideProblem: outsideProblem(reader.paths) };
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    return { started: [], values: new Map(), problem: error.message };
  }
}

/** The message completes "because …". */
class ArgumentError extends Error {}

class ArgumentReader {
  readonly values = new Map<string, string>();
  readonly paths: CommandWord[] = [];
  started: CommandWord[] = [];
  readonly #name: string;
  readonly #words: readonly CommandWord[];
  readonly #program: ProgramSyntax;
  readonly #mayChange: boolean;
  readonly #operands: CommandWord[] = [];
  readonly #scripts: CommandWord[] = [];
  #at = 0;

  constructor(name: string, words: readonly CommandWord[], program: ProgramSyntax, mayChange: boolean) {
    this.#name = name;
    this.#words = words;
    this.#program = program;
    this.#mayChange = mayChange;
  }

  read(): void {
    if (this.#program.harmless && this.#program.operands === "text") return;
    let isEnded = false;
    for (; this.#at < this.#words.length; this.#at += 1) {
      const word = this.#words[this.#at] as CommandWord;
      const isOption = !isEnded && word.text.startsWith("-") && word.text !== "-";
      if (isOption && word.kind === "literal" && word.text === "--") isEnded = true;
      else if (isOption) this.#option(word);
      else {
        // Some implementations, and `test`, do not know that `--` ends the options.
        const isLikeOption = word.text.startsWith("-") && word.text !== "-";
        if (isLikeOption && !this.#program.harmless) throw this.#unknown(word.text);
        if (mayBeOption(word) && !this.#program.harmless)
          throw new ArgumentError(`${shown(word)} may become an option of ${inCode(this.#name)}`);
        if (this.#operands.length === this.#program.startsAfter) {
          this.started = this.#words.slice(this.#at);
          break;
        }
        this.#operands.push(word);
      }
    }
    this.#checkOperands();
  }

  #option(word: CommandWord): void {
    const { text } = word;
    // `--include=*.ts` stays one option, whatever files there are.
    if (word.kind !== "literal" && !(word.kind === "pattern" && /^--[\w-]+=/.test(text))) throw this.#unknown(text);
    if (/^-\d+$/.test(text) && this.#program.options.has("#")) return;
    if (text.startsWith("--")) {
      const [option = "", ...rest] = text.split("=");
      const kind = this.#kind(option, text);
      const value = rest.length > 0 ? rest.join("=") : undefined;
      const isUnclear = word.kind !== "literal" && kind !== "value" && kind !== "optional";
      if (isUnclear || (kind === "flag" && value !== undefined)) throw this.#unknown(text);
      const isAlone = kind === "flag" || kind === "optional";
      this.#value(option, kind, value ?? (isAlone ? "" : this.#next(text)));
      return;
    }
    if (this.#program.separateOptions && text.length > 2) throw this.#unknown(text);
    for (const [index, letter] of [...text.slice(1)].entries()) {
      const kind = this.#kind(letter, text);
      const rest = text.slice(index + 2);
      if (kind === "flag") {
        this.values.set(letter, "");
        continue;
      }
      this.#value(letter, kind, kind === "optional" ? rest : rest || this.#next(text));
      return;
    }
  }

  #kind(option: string, text: string): OptionKind {
    const kind =
      this.#program.options.get(option) ?? (this.#mayChange ? this.#program.changing.get(option) : undefined);
    if (!kind) throw this.#unknown(text);
    return kind;
  }

  /** Returns the next word as a value. A value that looks like an option is one for some implementations. */
  #next(option: string): string {
    this.#at += 1;
    const word = this.#words[this.#at];
    if (word?.kind !== "literal" || /^-(?!\d+$)/.test(word.text)) throw this.#unknown(option);
    return word.text;
  }

  #value(option: string, kind: OptionKind, text: string): void {
    if (this.#program.values?.test(text) === false) throw this.#unknown(text);
    this.values.set(option, text);
    if (kind === "pair") this.#next(text);
    if (kind === "path") this.paths.push({ text, kind: "literal" });
    if (kind === "script") this.#scripts.push({ text, kind: "literal" });
  }

  #unknown(text: string): ArgumentError {
    return new ArgumentError(`${inCode(`${this.#name} ${text.slice(0, 60)}`)} is not known to be harmless`);
  }

  #checkOperands(): void {
    const { first, withoutPattern = [], minOperands = 0, maxOperands, changingOperands } = this.#program;
    const operands = (this.#mayChange && changingOperands) || this.#program.operands;
    const others = [...this.#operands];
    if (first && this.#scripts.length === 0 && !withoutPattern.some((option) => this.values.has(option))) {
      const word = others.shift();
      if (word) this.#scripts.push(word);
    }
    for (const word of this.#scripts) {
      const isAllowed =
        typeof first === "function" ? first(word.text) : !(first instanceof RegExp) || first.test(word.text);
      if (first !== "pattern" && (word.kind !== "literal" || !isAllowed))
        throw new ArgumentError(`${shown(word)} may do more than the usual work of ${inCode(this.#name)}`);
      // It may become several words, and those after the first are operands.
      if (word.kind !== "literal" && operands !== "text") this.paths.push(word);
    }
    if (this.#operands.length < minOperands) throw new ArgumentError(`${inCode(this.#name)} has no operand`);
    const extra =
      others[operands === "none" ? 0 : (maxOperands ?? others.length)] ??
      others.find(({ kind, text }) => {
        const isKnown = kind === "literal" || (maxOperands === undefined && !(operands instanceof RegExp));
        return !isKnown || (operands instanceof RegExp && !operands.test(text));
      });
    if (extra) throw new ArgumentError(`${inCode(this.#name)} may do more with ${shown(extra)}`);
    if (operands !== "text") this.paths.push(...others);
  }
}

/** True for a word that may begin with a dash, of which only the shell knows. */
export function mayBeOption({ kind, text }: CommandWord): boolean {
  return kind === "names" || kind === "unknown" || (kind === "pattern" && /^[*?[]/.test(text));
}

/** Returns a reason if one of the words may name a file outside the repository. */
export function outsideProblem(words: readonly CommandWord[]): string | undefined {
  for (const word of words) {
    const { text, kind } = word;
    if (isOutside(text)) return `${inCode(text.slice(0, 80))} is outside the repository`;
    if (kind === "unknown") return `it is not inspectable: ${shown(word)} is known only at run time`;
  }
  return undefined;
}

/** True for a path outside the repository, including one behind a name: `a=/etc`, `host:/etc`. */
function isOutside(text: string): boolean {
  return [text, ...text.split(/[=:,@]/).slice(1)].some((part) => !part.startsWith("//") && leavesTree(part));
}

function shown({ text }: CommandWord): string {
  return text === "" ? "its input" : inCode(text.slice(0, 60));
}
