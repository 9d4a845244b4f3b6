import { UserError } from "#domain/errors.ts";

/** A parsed slash command. `/tool git_push --branch main` has name `tool`, args `["git_push"]`, options `{ branch: "main" }`. */
export interface ParsedCommand {
  /** Without the slash, as it was typed. */
  name: string;
  /** The positional arguments. */
  args: string[];
  /** `--key value`, `--key=value` and `-k value`; true for a flag. */
  options: Record<string, string | boolean>;
  /** The whole input. */
  raw: string;
}

/** The commands of every front end. They take precedence over tools with the same name. */
export const BUILTIN_COMMANDS = [
  "help",
  "model",
  "clear",
  "revoke",
  "status",
  "config",
  "exit",
  "tools",
  "tool",
  "t",
  "ts",
] as const;
export type BuiltinCommand = (typeof BUILTIN_COMMANDS)[number];

export type CommandType =
  | { type: "builtin"; command: BuiltinCommand; parsed: ParsedCommand }
  | { type: "tool"; toolName: string; parsed: ParsedCommand }
  | { type: "unknown"; parsed: ParsedCommand };

/** The command has an unclosed quote or ends with a backslash. Positions count from 0, after the slash. */
export class CommandParseError extends UserError {
  override readonly name = "CommandParseError";
}

/** Text that starts with a slash. */
type CommandText = `/${string}`;

/** True for text that starts with a slash and is not empty after it. */
export function isCommand(input: string): input is CommandText {
  return input.startsWith("/") && input.slice(1).trim() !== "";
}

/**
 * Parses a slash command. Returns null for other text. Quotes group words, a backslash escapes the next character,
 * negative numbers are values, and `--` ends the options. Throws a CommandParseError.
 */
export function parseCommand(input: CommandText): ParsedCommand;
export function parseCommand(input: string): ParsedCommand | null;
export function parseCommand(input: string): ParsedCommand | null {
  if (!isCommand(input)) return null;

  const [name, ...tokens] = tokenize(input.slice(1).trimStart());
  return name ? { name: name.text, ...parseTokens(tokens), raw: input } : null;
}

/** Classifies a command as built-in, as a tool call (`/tool name`, `/t name`, `/name`) or as unknown. Ignores case. */
export function classifyCommand(
  parsed: ParsedCommand,
  availableTools: readonly (string | { name: string })[],
): CommandType {
  const name = parsed.name.toLowerCase();
  const names = availableTools.map((tool) => (typeof tool === "string" ? tool : tool.name));
  const findTool = (word: string) => names.find((tool) => tool.toLowerCase() === word.toLowerCase());

  if (name === "tool" || name === "t") {
    const toolName = parsed.args[0];
    return toolName ? { type: "tool", toolName: findTool(toolName) ?? toolName, parsed } : { type: "unknown", parsed };
  }
  if (isBuiltinCommand(name)) return { type: "builtin", command: name, parsed };

  const toolName = findTool(name);
  return toolName ? { type: "tool", toolName, parsed } : { type: "unknown", parsed };
}

export function isBuiltinCommand(name: string): name is BuiltinCommand {
  return (BUILTIN_COMMANDS as readonly string[]).includes(name);
}

/** True for `-i` and `--interactive`, which ask for each field. */
export function isInteractive({ options }: ParsedCommand): boolean {
  return options.i === true || options.interactive === true;
}

/** Converts options to tool arguments: `"true"` and `"false"` become booleans, and short names become field names. */
export function optionsToArgs(
  options: ParsedCommand["options"],
  fieldMapping: Record<string, string> = {},
): Record<string, unknown> {
  const entries = Object.entries(options).map(([key, value]) => {
    const name = Object.hasOwn(fieldMapping, key) ? fieldMapping[key] : key;
    return [name, value === "true" ? true : value === "false" ? false : value];
  });
  return Object.fromEntries(entries);
}

/** A word of a command. `literal` if it begins quoted or escaped, and so cannot be an option. */
interface Token {
  text: string;
  literal: boolean;
}

function parseTokens(tokens: Token[]): Pick<ParsedCommand, "args" | "options"> {
  const args: string[] = [];
  // A map, so that `--__proto__=x` is an ordinary option.
  const options = new Map<string, string | boolean>();

  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index] as Token;
    if (isValue(token)) {
      args.push(token.text);
      continue;
    }
    if (token.text === "--") {
      args.push(...tokens.slice(index + 1).map((rest) => rest.text));
      break;
    }

    const next = tokens[index + 1];
    const option = parseOption(token.text, next && isValue(next) ? next.text : undefined);
    for (const [key, value] of option.entries) options.set(key, value);
    if (option.usesNext) index++;
  }

  return { args, options: Object.fromEntries(options) };
}

function isValue({ text, literal }: Token): boolean {
  return literal || text === "-" || !text.startsWith("-") || /^-(\d+(\.\d+)?|\.\d+)$/.test(text);
}

function parseOption(
  text: string,
  next: string | undefined,
): { entries: [string, string | boolean][]; usesNext: boolean } {
  const isLong = text.startsWith("--");
  const name = text.slice(isLong ? 2 : 1);
  const equals = name.indexOf("=");

  if (equals > 0 && (isLong || equals === 1)) {
    return { entries: [[name.slice(0, equals), name.slice(equals + 1)]], usesNext: false };
  }
  if ((isLong || name.length === 1) && next !== undefined) return { entries: [[name, next]], usesNext: true };
  if (isLong) return { entries: [[name, true]], usesNext: false };
  return { entries: [...name].map((letter) => [letter, true]), usesNext: false };
}

/** The closing quote for each opening one. Phones type curly quotes. */
const closingQuotes: Record<string, string> = { '"': '"', "'": "'", "“": "”" };

function tokenize(input: string): Token[] {
  const tokens: Token[] = [];
  let token: Token | undefined;
  let quote: { closer: string; name: string; position: number } | undefined;

  for (let position = 0; position < input.length; position++) {
    const character = input.charAt(position);

    if (character === "\\") {
      if (position + 1 === input.length) throw new CommandParseError("Trailing backslash at end of input");
      token ??= { text: "", literal: true };
      token.text += input.charAt(++position);
    } else if (quote) {
      if (character === quote.closer) quote = undefined;
      else token = add(token, character);
    } else if (Object.hasOwn(closingQuotes, character)) {
      token ??= { text: "", literal: true };
      quote = { closer: closingQuotes[character] as string, name: character === "'" ? "single" : "double", position };
    } else if (/\s/.test(character)) {
      if (token) tokens.push(finish(token));
      token = undefined;
    } else {
      token = add(token, character);
    }
  }

  if (quote) throw new CommandParseError(`Unclosed ${quote.name} quote at position ${quote.position}`);
  if (token) tokens.push(finish(token));
  return tokens;
}

function add(token: Token | undefined, character: string): Token {
  return token ? { ...token, text: token.text + character } : { text: character, literal: false };
}

/** Phones replace the two hyphens of an option with one dash. */
function finish(token: Token): Token {
  return token.literal ? token : { ...token, text: token.text.replace(/^[—–](?=[A-Za-z])/, "--") };
}
