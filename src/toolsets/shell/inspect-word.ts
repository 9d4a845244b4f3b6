import type { CommandNode, ScriptNode, WordNode } from "just-bash";
import { type CommandWord, leavesTree } from "./simple-command.ts";

/** Thrown if a script cannot be determined from its text. The message completes "it is not inspectable: …". */
export class NotInspectable extends Error {}

type WordPart = WordNode["parts"][number];
type Expansion = Extract<WordPart, { type: "ParameterExpansion" }>;
type Operation = NonNullable<Expansion["operation"]>;
type Arithmetic = Extract<WordPart, { type: "ArithmeticExpansion" }>["expression"]["expression"];
type Condition = Extract<CommandNode, { type: "ConditionalCommand" }>["expression"];

/** The possible values of each variable in a script, from all its assignments; undefined if any of them is unknown. */
export type VariableValues = Map<string, CommandWord[] | undefined>;

interface WordInspectorOptions {
  known: VariableValues;
  /** Called with the commands of a substitution. Returns true if they print nothing but paths of the repository. */
  onScript(script: ScriptNode): boolean;
}

/** Reads the words of a script and collects the variables it assigns. */
export class WordInspector {
  readonly values: VariableValues = new Map();
  /** The variables that are certainly set before the word that is inspected next. */
  set: ReadonlySet<string> = new Set();
  /** The number of quotes after a dollar sign that end a string or are inside one, and so do not start a `$'…'` quote. */
  dollarsBeforeQuotes = 0;
  readonly #known: VariableValues;
  readonly #onScript: (script: ScriptNode) => boolean;

  constructor({ known, onScript }: WordInspectorOptions) {
    this.#known = known;
    this.#onScript = onScript;
  }

  addValues(name: string, values: CommandWord[] | undefined): void {
    const before = this.values.has(name) ? this.values.get(name) : [];
    this.values.set(name, values && before && [...before, ...values]);
  }

  /** Inspects a word. Set `quoted` for the text of a here-document. */
  inspect(word: WordNode, { quoted = false } = {}): CommandWord {
    const found: CommandWord = { text: "", fixed: true, mayBeOption: false, mayBeSeveral: false, unknown: false };
    for (const part of word.parts) this.#part(part, found, quoted);
    // A variable that is not set yet and a substitution may be empty: `$a-delete; a=x`.
    const [, before = "", behind = ""] = /^((?:\$[A-Za-z_]\w*|\$\(…\))+)([-/~.].*)$/s.exec(found.text) ?? [];
    if (!found.fixed && behind !== "" && !before.split("$").some((name) => this.set.has(name))) {
      if (behind.startsWith("-")) found.mayBeOption = true;
      if (leavesTree(behind)) found.unknown = true;
    }
    // `-d{elete,x}`, `-$a`: the letters behind the dash are not known.
    if (!found.fixed && found.text.startsWith("-")) found.mayBeOption = true;
    return found;
  }

  #part(part: WordPart, word: CommandWord, quoted: boolean): void {
    switch (part.type) {
      case "Literal":
        if (quoted) this.dollarsBeforeQuotes += part.value.split(/\$(?=['"])/).length - 1;
        else checkUnquoted(part.value);
        word.text += part.value;
        break;
      case "Escaped":
        if (!quoted) checkUnquoted(part.value);
        word.text += part.value;
        break;
      case "SingleQuoted":
        if (part.value.endsWith("$")) this.dollarsBeforeQuotes += 1;
        word.text += part.value;
        break;
      case "DoubleQuoted":
        for (const inner of part.parts) this.#part(inner, word, true);
        if (endsInDollar(part.parts.at(-1))) this.dollarsBeforeQuotes += 1;
        break;
      case "ParameterExpansion":
        this.#parameter(part, word, quoted);
        break;
      case "CommandSubstitution":
        expand(word, "$(…)", { quoted, unknown: !this.#onScript(part.body) });
        if (!quoted) word.mayBeSeveral = true;
        break;
      case "ProcessSubstitution":
        this.#onScript(part.body);
        expand(word, "<(…)", { quoted: true, unknown: false });
        break;
      case "ArithmeticExpansion":
        checkArithmetic(part.expression.expression);
        expand(word, "$((…))", { quoted: true, unknown: false });
        break;
      case "BraceExpansion":
        for (const item of part.items) if (item.type === "Word") this.#braceItem(item.word, word);
        // An empty item leaves what follows: `{,x}/etc`.
        if (word.text === "" && part.items.some((item) => item.type === "Word" && item.word.parts.length === 0))
          word.unknown = true;
        expand(word, "{…}", { quoted: word.text !== "", unknown: false });
        word.mayBeSeveral = true;
        break;
      case "TildeExpansion":
        expand(word, `~${part.user ?? ""}`, { quoted: true, unknown: true });
        break;
      case "Glob":
        // An unclosed bracket is literal, as in `[ -f x ]`.
        if (part.pattern === "[") {
          word.text += part.pattern;
          break;
        }
        expand(word, part.pattern, { quoted: word.text !== "", unknown: false });
        word.mayBeSeveral = true;
        break;
      default:
        part satisfies never;
    }
  }

  #braceItem(item: WordNode, word: CommandWord): void {
    const { text, unknown, mayBeOption } = this.inspect(item);
    // Dots and slashes may combine with the text around them.
    if (unknown || leavesTree(text) || /^\.+$/.test(text)) word.unknown = true;
    if (mayBeOption) word.mayBeOption = true;
  }

  #parameter({ parameter, operation }: Expansion, word: CommandWord, quoted: boolean): void {
    if (!/^([A-Za-z_]\w*(\[(\d+|[@*])\])?|\d+|[?$!@*#-])$/.test(parameter)) {
      throw new NotInspectable("it has an expansion with a subscript");
    }
    if (operation) this.#operation(operation);
    if (!quoted || /@/.test(parameter)) word.mayBeSeveral = true;
    const values = operation ? undefined : this.#known.get(parameter);
    const isNumber = /^[?$#]$/.test(parameter) || operation?.type === "Length";
    const maySplit = !quoted && values?.some(({ fixed }) => !fixed);
    if (isNumber || (values?.every(isOrdinary) && !maySplit))
      expand(word, `$${parameter}`, { quoted: true, unknown: false });
    else expand(word, `$${parameter}`, { quoted, unknown: !values?.every(isOrdinary) });
  }

  #operation(operation: Operation): void {
    switch (operation.type) {
      case "DefaultValue":
      case "UseAlternative":
        this.inspect(operation.word);
        break;
      case "ErrorIfUnset":
        if (operation.word) this.inspect(operation.word);
        break;
      case "PatternRemoval":
        this.inspect(operation.pattern);
        break;
      case "PatternReplacement":
        this.inspect(operation.pattern);
        if (operation.replacement) this.inspect(operation.replacement);
        break;
      case "CaseModification":
        if (operation.pattern) this.inspect(operation.pattern);
        break;
      case "Substring":
        checkArithmetic(operation.offset.expression);
        if (operation.length) checkArithmetic(operation.length.expression);
        break;
      case "Length":
      case "ArrayKeys":
      case "VarNamePrefix":
        break;
      case "Transform":
        // `P` expands the value as a prompt, which may contain commands.
        if (operation.operator === "P") throw new NotInspectable("it expands a variable as a prompt");
        break;
      case "AssignDefault":
      case "Indirection":
      case "BadSubstitution":
      case "LengthSliceError":
        throw new NotInspectable("it has an expansion that does more than read a variable");
      default:
        operation satisfies never;
    }
  }

  condition(expression: Condition): void {
    switch (expression.type) {
      case "CondAnd":
      case "CondOr":
        this.condition(expression.left);
        this.condition(expression.right);
        break;
      case "CondNot":
        this.condition(expression.operand);
        break;
      case "CondGroup":
        this.condition(expression.expression);
        break;
      case "CondWord":
        this.inspect(expression.word);
        break;
      case "CondUnary": {
        const { text, fixed } = this.inspect(expression.operand);
        const isName = expression.operator === "-v" || expression.operator === "-R";
        if (isName && (!fixed || !/^\w+$/.test(text))) throw new NotInspectable("it has a subscript");
        break;
      }
      case "CondBinary": {
        const operands = [expression.left, expression.right].map((operand) => this.inspect(operand));
        // These evaluate their operands as arithmetic.
        const isArithmetic = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"].includes(expression.operator);
        if (isArithmetic && operands.some(({ text, fixed }) => !fixed || !/^-?\d+$/.test(text))) {
          throw new NotInspectable("it has arithmetic");
        }
        break;
      }
      default:
        expression satisfies never;
    }
  }
}

function endsInDollar(part: WordPart | undefined): boolean {
  return part?.type === "Literal" && part.value.endsWith("$");
}

/** True for a value that stays a single word, is not an option and is inside the repository. */
function isOrdinary({ text, fixed, mayBeOption, unknown }: CommandWord): boolean {
  if (unknown || mayBeOption || text === "" || leavesTree(text)) return false;
  return /^[\w./:@%+,=][\w./:@%+,=*?[\]-]*$/.test(text) && (fixed || !text.includes("$"));
}

function expand(word: CommandWord, text: string, { quoted, unknown }: { quoted: boolean; unknown: boolean }): void {
  if (!quoted || (unknown && word.text === "")) word.mayBeOption = true;
  word.text += text;
  word.fixed = false;
  word.unknown ||= unknown;
}

// Shells disagree on characters that look like a space; bash makes them part of a word.
function checkUnquoted(text: string): void {
  if (/[^\S \t\n]|[\p{Cc}\p{Cf}]/u.test(text.replaceAll(/[\t\n]/g, ""))) {
    throw new NotInspectable("it has a space or a control character of a special kind");
  }
}

/** Throws for arithmetic with variables: they are evaluated in turn, and a subscript in one may run commands. */
function checkArithmetic(expression: Arithmetic): void {
  switch (expression.type) {
    case "ArithNumber":
      break;
    case "ArithBinary":
      checkArithmetic(expression.left);
      checkArithmetic(expression.right);
      break;
    case "ArithUnary":
      checkArithmetic(expression.operand);
      break;
    case "ArithGroup":
    case "ArithNested":
      checkArithmetic(expression.expression);
      break;
    default:
      throw new NotInspectable("it has arithmetic");
  }
}
