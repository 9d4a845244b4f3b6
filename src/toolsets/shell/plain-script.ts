import { type CommandNode, parse, type SimpleCommandNode, type StatementNode, type WordNode } from "just-bash";
import { inCode } from "#text/visible-text.ts";
import { outsideProblem } from "./options.ts";
import { type CommandWord, literal, type SimpleCommand } from "./simple-command.ts";
import { listsNames } from "./started-commands.ts";

export type PlainScript = { kind: "plain"; commands: SimpleCommand[] } | { kind: "notInspectable"; reason: string };

const maxLength = 20_000;
/** Commands, counted for each value of a loop variable. */
const maxSteps = 500;

/**
 * Finds every command that a bash script starts, if the script is plain: simple commands in pipelines, lists, groups,
 * `if`, `for` and `while`, with words that its text determines. Only the syntax listed here is plain; all other scripts
 * are not inspectable. Both the text and the syntax tree of just-bash's parser are checked, since shells read unusual
 * scripts differently.
 */
export function readScript(script: string): PlainScript {
  try {
    const text = withoutHereDocument(script);
    checkText(text);
    const reader = new ScriptReader();
    reader.readStatements(parse(text).statements, { variables: new Map(), writes: false, reads: [], hasInput: false });
    if (reader.commands.length === 0) throw new NotPlainError("it has no command");
    return { kind: "plain", commands: reader.commands };
  } catch (error) {
    return { kind: "notInspectable", reason: error instanceof NotPlainError ? error.message : "it is not valid bash" };
  }
}

/** The message completes "it is not inspectable: …". */
class NotPlainError extends Error {}

const quotedText = /\\[\s\S]|'[^']*'|"(?:[^"\\]|\\[\s\S])*"|(?<![^\s;&|()])#[^\n]*/g;

/** Returns a script with `''` in place of each quoted part, and without comments and continued lines. */
function withoutQuotes(script: string): string {
  return script.replace(quotedText, (found) => (found.startsWith("#") || found === "\\\n" ? "" : "''"));
}

const hereDocument = /<<[ \t]*'([A-Za-z_]+)'([^\n]*\n)(?:.*\n)*?\1(?=\n|$)/;

/** Replaces a here-document with a quoted delimiter, whose text is only input, by other input. */
function withoutHereDocument(script: string): string {
  const found = hereDocument.exec(script);
  if (!found) return script;
  const before = script.slice(0, found.index);
  const line = found[2] ?? "";
  // It may be inside quotes or in a comment.
  const unclear = withoutQuotes(before).replaceAll("''", "") + line;
  if (before.includes("#") || /['"#\\]|<</.test(unclear))
    throw new NotPlainError("it has a here-document next to quotes");
  return `${before}</dev/null${line}${script.slice(found.index + found[0].length)}`;
}

/** Syntax that is not plain, as found outside quotes, with the reason. */
const notPlain: [RegExp, string][] = [
  [/\(\(|\$\[/, "it has arithmetic"],
  [/`|\$\(/, "it has a command substitution"],
  [/[<>]\(/, "it has a process substitution"],
  [/\$'/, "it has a $'…' quote"],
  [/<</, "it has a here-document"],
  [/\$(?![A-Za-z_?])/, "it has an expansion that is known only at run time"],
  // `HEAD~1` has no home folder.
  [/(?<![\w^])~/, "it has the path of a home folder"],
  [/[@*+?!]\(/, "it has an extended pattern"],
  [/\w\[[^\]\s]*(?=\s|$)|\]\+?=/, "it has a subscript"],
  // bash reads `!x` as a word, and the parser as `! x`.
  [/(?<![\s;&|(]|^)!|!(?!\s|=\s)/, "it has an exclamation mark in a word"],
  // The parser starts a new command at `[[` anywhere.
  [
    /(?<!(?:^|[;&|\n(])[ \t]*(?:(?:if|elif|then|else|while|until|do)[ \t]+)?(?:![ \t]+)?)\[\[(?=\s)/,
    "it has brackets that begin no command",
  ],
  [/[^\w\s./:,=+\-@%^*?[\]!;&|<>(){}$#~']/, "it has an unusual character outside quotes"],
];
/** A range of numbers, and braces that are not expanded: a group, `{}` and `HEAD@{1}`. */
const plainBraces =
  /(?<![=[]\S*)\{\d{1,4}\.\.\d{1,4}\}|(?<![^\s;&|(])\{(?=\s)|(?<=[\s;])\}(?![^\s;&|)])|(?<!\S)(?:-I)?\{\}(?![^\s;&|)])|@\{\w+\}/g;

function checkText(script: string): void {
  const refuse = (isFound: boolean, reason: string) => {
    if (isFound) throw new NotPlainError(reason);
  };
  refuse(script.length > maxLength, "it is very long");
  refuse(
    /[\p{Cc}\p{Cf}\p{Z}]/u.test(script.replace(/[ \t\n]/g, "")),
    "it has a space or control character of a special kind",
  );
  // The parser ends some words at a continued line.
  refuse(/\\$|\\[\s;&|()]#|\S\\\n/.test(script), "it has a backslash at an unusual place");
  const bare = withoutQuotes(script);
  refuse(/['"]/.test(bare.replaceAll("''", "")), "it is not valid bash");
  for (const [pattern, reason] of notPlain) refuse(pattern.test(bare), reason);
  refuse(/[{}]/.test(bare.replace(plainBraces, "")), "it has braces that are not a range of numbers");
}

interface Context {
  /** The values of loop variables. */
  variables: ReadonlyMap<string, CommandWord>;
  /** Input and output that the commands have from around them. */
  writes: boolean;
  reads: readonly CommandWord[];
  hasInput: boolean;
  source?: SimpleCommand | undefined;
}

type Compound = Exclude<CommandNode, SimpleCommandNode>;
type Redirection = SimpleCommandNode["redirections"][number];

/** Names of loop variables that have no meaning for bash or any program. */
const plainName = /^[a-z][a-z0-9]{0,20}$/;
/** Variables that may be set for a command, to a plain value. */
const harmlessVariables = /^(CI|NODE_ENV|NO_COLOR|FORCE_COLOR|CLICOLOR|LC_ALL|LANG|TZ|DEBUG|COLUMNS|RUST_BACKTRACE)$/;
/** Words that the parser reads as programs in some positions, and bash as syntax. */
const keywords = new Set(
  "if then else elif fi for while until do done case esac function select in time coproc [[ ]] ! { }".split(" "),
);

/** The tests that `[[` may have. Others evaluate arithmetic, subscripts or patterns. */
const fileTests = new Set(["-b", "-c", "-d", "-e", "-f", "-h", "-L", "-p", "-r", "-s", "-w", "-x", "-n", "-z"]);

class ScriptReader {
  readonly commands: SimpleCommand[] = [];
  #steps = 0;

  readStatements(statements: readonly StatementNode[], context: Context): void {
    for (const { pipelines, deferredError, background } of statements) {
      if (deferredError) throw new NotPlainError("it is not valid bash");
      if (background) throw new NotPlainError("it runs a command in the background");
      for (const { commands, pipeStderr = [] } of pipelines) {
        let before: Pick<Context, "hasInput" | "source"> = context;
        for (const [at, node] of commands.entries()) {
          const source = this.#command(node, { ...context, ...before, ...(at > 0 && { reads: [] }) });
          before = { hasInput: true, source: pipeStderr[at] ? undefined : source };
        }
      }
    }
  }

  /** Returns the command if it is a simple one and its output has no error messages, which repeat its arguments. */
  #command(node: CommandNode, context: Context): SimpleCommand | undefined {
    this.#steps += 1;
    if (this.#steps > maxSteps) throw new NotPlainError("it has very many commands");
    if (node.type === "SimpleCommand") return this.#simple(node, context);
    this.#compound(node, redirected(node.redirections, context));
    return undefined;
  }

  #compound(node: Compound, context: Context): void {
    switch (node.type) {
      case "If":
        for (const { condition, body } of node.clauses) this.readStatements([...condition, ...body], context);
        this.readStatements(node.elseBody ?? [], context);
        break;
      case "Subshell":
      case "Group":
        this.readStatements(node.body, context);
        break;
      case "For":
        if (!node.words) throw new NotPlainError("its arguments are known only at run time");
        for (const word of node.words)
          this.readStatements(node.body, bound(context, node.variable, readWord(word, context)));
        break;
      case "While":
      case "Until": {
        const name = variableThatIsRead(node.condition);
        if (!name) this.readStatements(node.condition, context);
        const isListing = context.source !== undefined && context.reads.length === 0 && listsNames(context.source);
        const line: CommandWord = { text: "", kind: isListing ? "names" : "unknown" };
        this.readStatements(node.body, name ? bound(context, name, line) : context);
        break;
      }
      case "ConditionalCommand":
        if (node.expression.type !== "CondUnary" || !fileTests.has(node.expression.operator))
          throw new NotPlainError("it has an unusual test");
        if (!/^-[nz]$/.test(node.expression.operator)) checkPath(readWord(node.expression.operand, context));
        else readWord(node.expression.operand, context);
        break;
      case "Case":
        throw new NotPlainError("it has a case command");
      case "FunctionDef":
        throw new NotPlainError("it defines a function");
      case "CStyleFor":
      case "ArithmeticCommand":
        throw new NotPlainError("it has arithmetic");
      default:
        node satisfies never;
    }
  }

  #simple({ name, args, assignments, redirections }: SimpleCommandNode, context: Context): SimpleCommand | undefined {
    for (const { name: variable, value, append, array } of assignments) {
      const text = value ? readWord(value, context) : literal("");
      const isPlain = !append && !array && text.kind === "literal" && /^[\w.:@,+-]*$/.test(text.text);
      if (!isPlain || !harmlessVariables.test(variable)) throw new NotPlainError(`it sets ${variable}`);
    }
    if (!name) throw new NotPlainError(redirections.length > 0 ? "it only redirects" : "it only sets a variable");
    const words = [name, ...args].map((word) => readWord(word, context));
    if (keywords.has(words[0]?.text ?? "") || words[0]?.text.startsWith("-"))
      throw new NotPlainError("it is not valid bash");
    const { writes, reads, hasInput, source } = redirected(redirections, context);
    const command: SimpleCommand = { words, writes, reads: [...reads], hasInput, source };
    this.commands.push(command);
    return redirections.some(({ fd, operator }) => fd === 2 && operator === ">&") ? undefined : command;
  }
}

function bound(context: Context, name: string, value: CommandWord): Context {
  // After an inner loop, the variable has another value in the outer one.
  if (!plainName.test(name) || context.variables.has(name)) throw new NotPlainError(`it sets ${name}`);
  return { ...context, variables: new Map([...context.variables, [name, value]]) };
}

/** Returns the variable of `read -r line` or `IFS= read line`. */
function variableThatIsRead([statement, ...others]: readonly StatementNode[]): string | undefined {
  const [pipeline, ...more] = statement?.pipelines ?? [];
  const [node, ...piped] = pipeline?.commands ?? [];
  if (node?.type !== "SimpleCommand" || others.length + more.length + piped.length > 0) return undefined;
  const isPlain = node.assignments.every(({ name, value, array }) => name === "IFS" && !value && !array);
  const words = [node.name, ...node.args].map((word) =>
    word ? readWord(word, { variables: new Map() }) : literal(""),
  );
  const [program, option, variable = option] = words.map(({ text }) => text);
  const isRead = program === "read" && (words.length === 2 || (words.length === 3 && option === "-r"));
  return isRead && isPlain && node.redirections.length === 0 ? variable : undefined;
}

function checkPath(word: CommandWord): void {
  const problem = word.kind === "unknown" ? "a path is known only at run time" : outsideProblem([word]);
  if (problem) throw new NotPlainError(problem);
}

/** Returns the context within redirections of a command. */
function redirected(redirections: readonly Redirection[], context: Context): Context {
  const inside = { ...context };
  for (const { operator, fd, fdVariable, target } of redirections) {
    const unusual = new NotPlainError("it has an unusual redirection");
    if (fdVariable !== undefined || target.type === "HereDoc") throw unusual;
    const word = readWord(target, context);
    const isDevice = /^\/dev\//.test(word.text) && !/^\/dev\/(null|stdin|stdout|stderr)$/.test(word.text);
    if (word.kind !== "literal" || isDevice || !/^[\w.%@+/:=,-]+$/.test(word.text)) throw unusual;
    if (operator === "<" && (fd ?? 0) === 0) {
      checkPath(word);
      Object.assign(inside, { reads: [word], hasInput: true, source: undefined } satisfies Partial<Context>);
    } else if ([">", ">>", "&>", "&>>"].includes(operator) && (fd === null || fd === 1 || fd === 2))
      inside.writes ||= word.text !== "/dev/null";
    else if (operator !== ">&" || (fd ?? 1) > 2 || !/^[12]$/.test(word.text)) throw unusual;
  }
  return inside;
}

/** The value of `$?`, or those of a range such as `{1..5}`. */
const someNumber: CommandWord = { text: "0", kind: "pattern" };

function readWord({ parts }: WordNode, { variables }: Pick<Context, "variables">): CommandWord {
  const word = literal("");
  const flat = parts.flatMap((part) =>
    part.type === "DoubleQuoted"
      ? part.parts.map((inner) => ({ part: inner, quoted: true }))
      : [{ part, quoted: false }],
  );
  const isWhole = flat.length === 1;
  for (const { part, quoted } of flat) {
    switch (part.type) {
      case "Literal":
      case "Escaped":
      case "SingleQuoted":
        word.text += part.value;
        break;
      case "Glob":
        word.text += part.pattern;
        // A bracket alone is the program `[`. In a word, quotes may follow that are part of a pattern: `["-"]x`.
        if (part.pattern !== "[" || !isWhole) word.kind = widest(word.kind, "pattern");
        break;
      case "ParameterExpansion": {
        const value = part.parameter === "?" ? someNumber : variables.get(part.parameter);
        if (!value || part.operation)
          throw new NotPlainError(`${inCode(`$${part.parameter}`)} is known only at run time`);
        word.text += value.text;
        word.kind = widest(word.kind, kindOf(value, { quoted, isWhole }));
        break;
      }
      case "BraceExpansion":
        word.text += someNumber.text;
        word.kind = widest(word.kind, someNumber.kind);
        break;
      default:
        throw new NotPlainError("it has an expansion that is known only at run time");
    }
  }
  return word;
}

const kinds: CommandWord["kind"][] = ["literal", "pattern", "names", "unknown"];

function widest(one: CommandWord["kind"], other: CommandWord["kind"]): CommandWord["kind"] {
  return kinds[Math.max(kinds.indexOf(one), kinds.indexOf(other))] ?? "unknown";
}

/** Returns the kind that the value of a variable has in a word. Without quotes, it is split at spaces. */
function kindOf({ kind, text }: CommandWord, { quoted, isWhole }: { quoted: boolean; isWhole: boolean }) {
  if (kind === "literal") return quoted || /^[\w./:@%+,=-]+$/.test(text) ? kind : "unknown";
  if (kind === "pattern" && (quoted || text === someNumber.text)) return kind;
  return isWhole && kind !== "unknown" ? "names" : "unknown";
}
