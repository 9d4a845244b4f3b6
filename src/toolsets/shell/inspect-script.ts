import { type CommandNode, parse, type SimpleCommandNode, type StatementNode } from "just-bash";
import { NotInspectable, type VariableValues, WordInspector } from "./inspect-word.ts";
import { listsPaths } from "./program-effects.ts";
import type { SimpleCommand } from "./simple-command.ts";

export type Inspection = { kind: "inspected"; commands: SimpleCommand[] } | { kind: "notInspectable"; reason: string };

const maxLength = 20_000;
const maxBrackets = 1_000;
/** Shell keywords that this parser treats as programs in some positions. */
const keywords = new Set(
  "if then else elif fi for while until do done case esac function select in time coproc [[ ]] ! { }".split(" "),
);
/** Builtins that set the variables named by their arguments. */
const declaring = new Set(["export", "declare", "typeset", "local", "readonly"]);

/**
 * Finds every command that a bash script would run, using the parser of just-bash. This includes commands in
 * conditions, loops, functions, subshells and substitutions. A script is not inspectable if its text does not determine
 * all commands and words.
 */
export function inspectScript(script: string): Inspection {
  const problem = unreadable.find(({ found }) => found(script));
  if (problem) return notInspectable(problem.reason);
  try {
    const { statements } = parse(script);
    // A loop reads variables that are assigned later in its body, so all assignments are collected before any lookup.
    const { values } = new ScriptInspector(new Map()).inspect(statements);
    const { commands, dollarsBeforeQuotes } = new ScriptInspector(values).inspect(statements);
    // The parser decodes these quotes, but not always as bash does.
    if (script.split(/\$(?=['"])/).length - 1 > dollarsBeforeQuotes) return notInspectable("it has a $'…' quote");
    return commands.length > 0 ? { kind: "inspected", commands } : notInspectable("it has no command");
  } catch (error) {
    return notInspectable(error instanceof NotInspectable ? error.message : "it is not valid bash");
  }
}

/** The only arithmetic that is accepted: numbers and operators, without variables. */
const plainSum = /\$\(\([\d\s+*/%-]*\)\)/g;

/**
 * Constructs that the parser reads differently from bash, found by running both on random scripts, and constructs that
 * make it slow or hang. Its time is quadratic in the number of brackets (two seconds for 20,000), and some arithmetic
 * never terminates.
 */
const unreadable: { reason: string; found(script: string): boolean }[] = [
  { reason: "it is very long", found: ({ length }) => length > maxLength },
  { reason: "it has very many brackets", found: (script) => count(script, /[[({]/g) > maxBrackets },
  {
    reason: "it has arithmetic",
    found: (script) => /\(\(|\$\[|\$\{[^}]*:(?![-+=?])/.test(script.replace(plainSum, "0")),
  },
  { reason: "it has a subscript", found: (script) => /\$\{[^}]*\[|\w\[.*\]\+?=|\w\[[^\]\s]*(\s|$)/s.test(script) },
  {
    reason: "it has backquotes with backslashes",
    found: (script) => script.includes("`") && /\\[`$\\]|\$`/.test(script),
  },
  // The parser ends `$(…)` at a parenthesis in a comment.
  {
    reason: "it has a comment in a substitution",
    found: (script) => {
      const start = script.indexOf("$(");
      const lines = start === -1 ? [] : script.slice(start).split("\n");
      return lines.some((line) => {
        const comment = line.search(/(?:^|[\s;&|()])#/);
        return comment !== -1 && /[()'"`\\]/.test(line.slice(comment + 1));
      });
    },
  },
  { reason: "it ends in a backslash", found: (script) => script.endsWith("\\") },
  // The parser starts a new command at these anywhere, as in `ls [[ x ]]`.
  { reason: "it has brackets that begin no command", found: (script) => has(script, /\[\[(?=\s)/g, "elsewhere") },
  // bash reads `!x` as a word, the parser as `! x`.
  { reason: "it has an exclamation mark before a word", found: (script) => has(script, /!(?!\s)/g, "at a command") },
];

function count(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}

const beforeCommand = /(^|[\n;&|($])[ \t]*((then|do|else|elif|if|while|until|time|for|!|\{)[ \t]+)*$/;

function has(script: string, pattern: RegExp, place: "at a command" | "elsewhere"): boolean {
  const isAtCommand = (index: number) => beforeCommand.test(script.slice(Math.max(0, index - 200), index));
  return [...script.matchAll(pattern)].some(({ index }) => isAtCommand(index) === (place === "at a command"));
}

function notInspectable(reason: string): Inspection {
  return { kind: "notInspectable", reason };
}

type Redirection = SimpleCommandNode["redirections"][number];

class ScriptInspector {
  readonly #commands: SimpleCommand[] = [];
  readonly #words: WordInspector;

  constructor(known: VariableValues) {
    this.#words = new WordInspector({
      known,
      onScript: ({ statements }) => {
        const printing = this.#scoped(() => this.#statements(statements, false));
        return printing !== undefined && listsPaths(printing);
      },
    });
  }

  inspect(statements: readonly StatementNode[]) {
    this.#statements(statements, false);
    const { values, dollarsBeforeQuotes } = this.#words;
    return { commands: this.#commands, values, dollarsBeforeQuotes };
  }

  /** Inspects a part of the script that may not run, or not in this shell: the variables it sets do not count afterwards. */
  #scoped<T>(inspect: () => T): T {
    const { set } = this.#words;
    const result = inspect();
    this.#words.set = set;
    return result;
  }

  /** Returns the last command of a single pipeline. */
  #statements(statements: readonly StatementNode[], hasInput: boolean): SimpleCommand | undefined {
    let last: SimpleCommand | undefined;
    for (const { pipelines, deferredError, background } of statements) {
      if (deferredError) throw new NotInspectable("it is not valid bash");
      const { set } = this.#words;
      for (const [position, { commands }] of pipelines.entries()) {
        last = undefined;
        for (const [index, command] of commands.entries()) {
          const source: SimpleCommand | undefined = last;
          const inspect = (): SimpleCommand | undefined => this.#command(command, hasInput || index > 0, source);
          last = commands.length > 1 || position > 0 ? this.#scoped(inspect) : inspect();
        }
      }
      if (background) this.#words.set = set;
    }
    return statements.length === 1 && statements[0]?.pipelines.length === 1 ? last : undefined;
  }

  #command(node: CommandNode, hasInput: boolean, source?: SimpleCommand): SimpleCommand | undefined {
    if (node.type === "SimpleCommand") return this.#simple(node, hasInput, source);

    const own = emptyCommand();
    for (const redirection of node.redirections) this.#redirection(redirection, own);
    const isFed = hasInput || own.hasInput;
    switch (node.type) {
      case "If":
        for (const { condition, body } of node.clauses)
          this.#scoped(() => this.#statements([...condition, ...body], isFed));
        this.#scoped(() => this.#statements(node.elseBody ?? [], isFed));
        break;
      case "For": {
        const values = (node.words ?? []).map((word) => this.#words.inspect(word));
        this.#words.addValues(node.variable, node.words ? values : undefined);
        own.assigned.push({ name: node.variable, value: undefined, isExported: false });
        this.#scoped(() => {
          if (node.words) this.#setVariable(node.variable);
          this.#statements(node.body, isFed);
        });
        break;
      }
      case "While":
      case "Until":
        this.#scoped(() => this.#statements([...node.condition, ...node.body], isFed));
        break;
      case "Case":
        this.#words.inspect(node.word);
        for (const { patterns, body } of node.items) {
          for (const pattern of patterns) this.#words.inspect(pattern);
          this.#scoped(() => this.#statements(body, isFed));
        }
        break;
      case "Subshell":
        this.#scoped(() => this.#statements(node.body, isFed));
        break;
      case "Group":
        this.#statements(node.body, isFed);
        break;
      case "ConditionalCommand":
        this.#words.condition(node.expression);
        break;
      case "FunctionDef":
        this.#scoped(() => {
          this.#words.set = new Set();
          this.#command(node.body, true);
        });
        break;
      case "CStyleFor":
      case "ArithmeticCommand":
        throw new NotInspectable("it has arithmetic");
      default:
        node satisfies never;
    }
    if (own.writes || own.reads.length > 0 || own.assigned.length > 0) this.#commands.push(own);
    return undefined;
  }

  #setVariable(name: string): void {
    this.#words.set = new Set([...this.#words.set, name]);
  }

  #simple(
    { name, args, assignments, redirections }: SimpleCommandNode,
    hasInput: boolean,
    source: SimpleCommand | undefined,
  ): SimpleCommand {
    const command: SimpleCommand = { ...emptyCommand(), hasInput, ...(source && { source }) };
    for (const assignment of assignments) {
      if (!/^[A-Za-z_]\w*(\[\d+\])?$/.test(assignment.name)) throw new NotInspectable("it has a subscript");
      if (assignment.array) throw new NotInspectable("it has an array");
      const [variable = ""] = assignment.name.split("[");
      const value = assignment.value ? this.#words.inspect(assignment.value) : undefined;
      const isPlain = !assignment.append;
      this.#words.addValues(variable, isPlain && value ? [value] : undefined);
      command.assigned.push({
        name: variable,
        value: isPlain && (!value || value.fixed) ? (value?.text ?? "") : undefined,
        isExported: name !== null,
      });
    }
    if (!name) for (const { name: variable } of assignments) this.#setVariable(variable);
    if (name) command.words = [name, ...args].map((word) => this.#words.inspect(word));
    for (const redirection of redirections) this.#redirection(redirection, command);
    // Its input is no longer the output of the preceding command.
    if (redirections.some(({ operator }) => operator.startsWith("<"))) delete command.source;

    const [program] = command.words;
    const isEmpty = !program && command.assigned.length === 0 && redirections.length === 0;
    if (isEmpty || (!program && args.length > 0) || (program && keywords.has(program.text)))
      throw new NotInspectable("it is not valid bash");
    this.#declarations(command);
    this.#commands.push(command);
    return command;
  }

  /** Records variables that builtins set. A subscript in such a name is evaluated and may run commands. */
  #declarations({ words: [program, ...args], assigned }: SimpleCommand): void {
    const name = program?.text ?? "";
    if (declaring.has(name)) {
      for (const { text, fixed } of args) {
        if (text.startsWith("-") && fixed) continue;
        const [variable = "", ...value] = text.split("=");
        if (!/^[A-Za-z_]\w*\+?$/.test(variable)) throw new NotInspectable(`the names that ${name} sets are not known`);
        this.#words.addValues(variable.replace("+", ""), undefined);
        assigned.push({
          name: variable.replace("+", ""),
          value: fixed ? value.join("=") : undefined,
          isExported: name === "export" || name === "declare" || name === "typeset",
        });
      }
    }
    const setsNames = ["read", "mapfile", "readarray", "getopts", "unset", "let", "wait"].includes(name);
    const setsName =
      name === "printf" && args[0] !== undefined && (args[0].mayBeOption || args[0].text.startsWith("-v"));
    const testsName =
      ["test", "["].includes(name) &&
      args.some(({ text, mayBeOption }) => mayBeOption || text === "-v" || text === "-R");
    if (!setsNames && !setsName && !testsName) return;
    if (name === "let") throw new NotInspectable("it has arithmetic");
    for (const { text: word, fixed } of args) {
      if (!fixed || (/\[/.test(word) && /[$`]/.test(word))) {
        throw new NotInspectable(`the names that ${name} sets are not known`);
      }
      // A name may follow its option in the same word: `printf -vPATH`.
      const text = word.replace(/^-[a-zA-Z]/, "");
      if (/^[A-Za-z_]\w*$/.test(text)) {
        this.#words.addValues(text, undefined);
        assigned.push({ name: text, value: undefined, isExported: false });
      }
    }
  }

  #redirection({ operator, target, fdVariable }: Redirection, command: SimpleCommand): void {
    if (fdVariable !== undefined) throw new NotInspectable("it opens a file descriptor by a variable");
    if (target.type === "HereDoc") {
      if (target.terminated === false) throw new NotInspectable("a here-document does not end");
      this.#words.inspect(target.content, { quoted: true });
      command.hasInput = true;
      return;
    }
    const word = this.#words.inspect(target);
    switch (operator) {
      case "<":
        command.reads.push(word);
        command.hasInput = true;
        break;
      case "<<<":
      case "<<":
      case "<<-":
        command.hasInput = true;
        break;
      case "<&":
      case ">&":
        if (/^(\d+|-)$/.test(word.text) && word.fixed) command.hasInput ||= operator === "<&";
        // bash reads `<&-word` as two words.
        else if (operator === "<&" || /^[-\d]/.test(word.text))
          throw new NotInspectable("it has an unusual redirection");
        else command.writes = true;
        break;
      case "<>":
      case ">":
      case ">>":
      case ">|":
      case "&>":
      case "&>>":
        if (!(word.fixed && word.text === "/dev/null")) command.writes = true;
        break;
      default:
        operator satisfies never;
    }
  }
}

function emptyCommand(): SimpleCommand {
  return { words: [], assigned: [], writes: false, reads: [], hasInput: false };
}
