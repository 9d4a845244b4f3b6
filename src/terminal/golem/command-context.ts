import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { type ParseArgsOptionDescriptor, parseArgs, parseEnv } from "node:util";
import { UserError } from "#domain/errors.ts";
import { GitError, isOutsideRepository, runGit } from "#sandbox/checkout/run-git.ts";
import { didYouMean } from "#text/closest-match.ts";

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

/**
 * Reads the variables of `.env` in the current folder. A file that is committed is not read: it may be another person's, and
 * name a server to which the keys in this environment would be sent.
 */
export async function readEnvFile({ cwd, errors }: CommandContext): Promise<Record<string, string | undefined>> {
  const file = join(cwd, ".env");
  if (!existsSync(file)) return {};
  if (!(await hasCommittedEnvFile(cwd))) return parseEnv(await readFile(file, "utf8"));
  errors.write("golem: .env is not read, because it is committed to this repository.\n");
  return {};
}

/** Throws a UserError if git cannot tell, as in a repository of another user. */
export async function hasCommittedEnvFile(folder: string): Promise<boolean> {
  // Some file systems find `.ENV` as `.env`, and git does not.
  const names = (await readdir(folder)).filter((name) => name.toLowerCase() === ".env");
  if (names.length === 0) return false;
  const listed = await runGit(["ls-files", "--", ...names], { cwd: folder }).catch((error: unknown) => {
    // Without git, or outside of a repository, the file did not come with one.
    if (!(error instanceof GitError) || isOutsideRepository(error)) return "";
    const sentence = `Could not check whether .env is committed to this repository: ${error.message}.`;
    throw new UserError(sentence, { cause: error });
  });
  return listed.length > 0;
}

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
  return `Unknown option ${given}.${didYouMean(given.replace(/^-+/, ""), known, "--")} --help lists the options.`;
}
