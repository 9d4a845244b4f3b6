import { parseArgs } from "node:util";
import { UserError } from "#domain/errors.ts";
import { closestMatch } from "#text/closest-match.ts";

export interface DemoOptions {
  help: boolean;
  /** Play the whole story without a browser. */
  story: boolean;
  port: number | undefined;
  /** `provider:model`. */
  model: string | undefined;
}

const known = {
  help: { type: "boolean", short: "h" },
  story: { type: "boolean" },
  port: { type: "string" },
  model: { type: "string" },
} as const;

export const demoUsage = `Golem Forge on a GitHub of its own, on this machine: no account, no key.

  npm run demo                                     opens it; the address is printed
  npm run demo -- --port 4000                      at a port of your choice (default 4000, or a free one)
  npm run demo -- --model anthropic:claude-haiku-4-5
                                                   with a real model; its key is read from the environment
  npm run demo -- --story                          plays one issue from start to pull request, in the terminal
  npm run demo -- --help                           says this

With ANTHROPIC_API_KEY, OPENAI_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY set, a real model answers; --model or
GOLEM_FORGE_MODEL says which. Without, a scripted one does, and says so. It can only fix the sample issue.`;

/** Reads the command line. Throws a UserError that says what is wrong with it. */
export function parseDemoOptions(args: readonly string[]): DemoOptions {
  const { tokens } = parseArgs({
    args: [...args],
    options: known,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind === "positional")
      throw new UserError(`The demo does not know what to do with "${token.value}". Try --help.`);
    if (token.kind === "option" && !Object.hasOwn(known, token.name)) throw unknownOption(token.rawName, token.name);
  }
  const { values } = parseArgs({ args: [...args], options: known, strict: false });
  return {
    help: values.help === true,
    story: values.story === true,
    port: readPort(values.port),
    model: readModel(values.model),
  };
}

function unknownOption(written: string, name: string): UserError {
  const near = closestMatch(name, Object.keys(known));
  return new UserError(`There is no option ${written}.${near ? ` Did you mean --${near}?` : " Try --help."}`);
}

function readPort(value: string | boolean | undefined): number | undefined {
  if (value === undefined) return undefined;
  const port = typeof value === "string" && /^\d{1,5}$/.test(value) ? Number(value) : Number.NaN;
  if (port >= 0 && port <= 65_535) return port;
  throw new UserError("--port takes a number from 0 to 65535, such as --port 4000.");
}

function readModel(value: string | boolean | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "string" && /^[a-z][a-z0-9-]*:.+$/.test(value)) return value;
  throw new UserError("--model takes provider:model, such as --model anthropic:claude-haiku-4-5.");
}
