import type { Readable, Writable } from "node:stream";
import { type ParseArgsOptionDescriptor, parseArgs } from "node:util";
import { UserError } from "#domain/errors.ts";
import { closestMatch } from "#text/closest-match.ts";

/** The context of a command: folder, environment and streams. */
export interface CommandContext {
  /** The current folder. */
  cwd: string;
  env: Record<string, string | undefined>;
  input: Readable;
  output: Writable;
  errors: Writable;
  /** Ends the process immediately. */
  leave(code: number): void;
}

export const exitCodes = {
  /** The worker answered. */
  answered: 0,
  /** The worker failed or reached a limit, or its changes could not be handled as requested. */
  failed: 1,
  /** The worker did not start: a wrong command, option, worker or setting. */
  misused: 2,
  interrupted: 130,
} as const;

export interface Words {
  positionals: string[];
  /** The values of each option, in order; `true` for an option without a value. */
  options: Map<string, (string | true)[]>;
}

export type KnownOptions = Record<string, ParseArgsOptionDescriptor>;

/** Throws a UserError if a command that takes no arguments was given one. */
export function refuseArguments(command: string, [first]: readonly string[]): void {
  if (first !== undefined) throw new UserError(`${command} takes no arguments, but was given ${first}.`);
}

/** Parses command-line arguments. Throws a UserError for an unknown option, and for a missing or unexpected value. */
export function parseWords(args: readonly string[], known: KnownOptions): Words {
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options: known,
    strict: false,
    tokens: true,
    allowPositionals: true,
  });
  const options: Words["options"] = new Map();
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const option = Object.hasOwn(known, token.name) ? known[token.name] : undefined;
    if (!option) throw new UserError(unknownOption(token.rawName, Object.keys(known)));
    if (option.type === "string" && token.value === undefined) throw new UserError(`${token.rawName} needs a value.`);
    if (option.type === "boolean" && token.value !== undefined)
      throw new UserError(`${token.rawName} takes no value, but was given ${JSON.stringify(token.value)}.`);
    options.set(token.name, [...(options.get(token.name) ?? []), token.value ?? true]);
  }
  return { positionals, options };
}

function unknownOption(given: string, known: readonly string[]): string {
  const near = closestMatch(given.replace(/^-+/, ""), known);
  return `There is no option ${given}.${near ? ` Did you mean --${near}?` : ""} See golem help.`;
}
