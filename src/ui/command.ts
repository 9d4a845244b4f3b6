import { UserError } from "#domain/errors.ts";

/** A slash command as typed: `/tool git_push --branch main` has name `tool`, args `["git_push"]`, options `{ branch: "main" }`. */
export interface ParsedCommand {
  /** Without the slash, as it was typed. */
  name: string;
  /** What stands by itself, in order. */
  args: string[];
  /** `--key value`, `--key=value` and `-k value`; true for a flag. */
  options: Record<string, string | boolean>;
  /** The whole input. */
  raw: string;
}

/** The commands every front end knows. They win over tools of the same name. */
export const BUILTIN_COMMANDS = [
  "help",
  "model",
  "clear",
  "status",
  "config",
  "exit",
  "tools",
  "tool",
  "t",
  "ts",
] as const;
export type BuiltinCommand = (typeof BUILTIN_COMMANDS)[number];

/** What a command asks for. */
export type CommandType =
  | { type: "builtin"; command: BuiltinCommand; parsed: ParsedCommand }
  | { type: "tool"; toolName: string; parsed: ParsedCommand }
  | { type: "unknown"; parsed: ParsedCommand };

/** The command cannot be read: a quote is left open, or it ends in a backslash. Positions count from 0 after the slash. */
export class CommandParseError extends UserError {
  override readonly name = "CommandParseError";
}

/** True for text that starts with a slash and says something after it. */
export function isCommand(input: string): boolean {
  return input.startsWith("/") && input.slice(1).trim() !== "";
}

/**
 * Reads a slash command; null for text that is none. Quotes group, a backslash takes the next character as it is, a
 * negative number is a value, and `--` ends the options. Throws a CommandParseError.
 */
export function parseCommand(input: string): ParsedCommand | null {
  if (!isCommand(input)) return null;

  const [name, ...tokens] = tokenize(input.slice(1).trimStart());
  return name ? { name: name.text, ...readTokens(tokens), raw: input } : null;
}

/** Says whether a command is built in, invokes a tool (`/tool name`, `/t name`, `/name`) or is not known. Ignores case. */
export function classifyCommand(
  parsed: ParsedCommand,
  availableTools: readonly (string | { name: string })[],
): CommandType {
  const name = parsed.name.toLowerCase();
  const names = availableTools.map((tool) => (typeof tool === "string" ? tool : tool.name));
  const known = (word: string) => names.find((tool) => tool.toLowerCase() === word.toLowerCase());

  if (name === "tool" || name === "t") {
    const wanted = parsed.args[0];
    return wanted ? { type: "tool", toolName: known(wanted) ?? wanted, parsed } : { type: "unknown", parsed };
  }
  if (isBuiltinCommand(name)) return { type: "builtin", command: name, parsed };

  const toolName = known(name);
  return toolName ? { type: "tool", toolName, parsed } : { type: "unknown", parsed };
}

export function isBuiltinCommand(name: string): name is BuiltinCommand {
  return (BUILTIN_COMMANDS as readonly string[]).includes(name);
}

/** True for `-i` and `--interactive`: ask for each field instead of taking them from the command. */
export function isInteractive({ options }: ParsedCommand): boolean {
  return options.i === true || options.interactive === true;
}

/** Options as tool arguments: `"true"` and `"false"` become booleans, short names become the fields they stand for. */
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

/** A word of a command. `literal`: it began quoted or escaped, so it cannot be an option. */
interface Token {
  text: string;
  literal: boolean;
}

function readTokens(tokens: Token[]): Pick<ParsedCommand, "args" | "options"> {
  const args: string[] = [];
  // A map keeps `--__proto__=x` an option like any other.
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
    const option = readOption(token.text, next && isValue(next) ? next.text : undefined);
    for (const [key, value] of option.entries) options.set(key, value);
    if (option.tookNext) index++;
  }

  return { args, options: Object.fromEntries(options) };
}

function isValue({ text, literal }: Token): boolean {
  return literal || text === "-" || !text.startsWith("-") || /^-(\d+(\.\d+)?|\.\d+)$/.test(text);
}

function readOption(
  text: string,
  next: string | undefined,
): { entries: [string, string | boolean][]; tookNext: boolean } {
  const isLong = text.startsWith("--");
  const name = text.slice(isLong ? 2 : 1);
  const equals = name.indexOf("=");

  if (equals > 0 && (isLong || equals === 1)) {
    return { entries: [[name.slice(0, equals), name.slice(equals + 1)]], tookNext: false };
  }
  if ((isLong || name.length === 1) && next !== undefined) return { entries: [[name, next]], tookNext: true };
  if (isLong) return { entries: [[name, true]], tookNext: false };
  return { entries: [...name].map((letter) => [letter, true]), tookNext: false };
}

/** Phones turn straight quotes into curly ones. */
const closers: Record<string, string> = { '"': '"', "'": "'", "“": "”" };

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
    } else if (Object.hasOwn(closers, character)) {
      token ??= { text: "", literal: true };
      quote = { closer: closers[character] as string, name: character === "'" ? "single" : "double", position };
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

/** Phones turn the two hyphens of an option into one dash. */
function finish(token: Token): Token {
  return token.literal ? token : { ...token, text: token.text.replace(/^[—–](?=[A-Za-z])/, "--") };
}
