import { parseArgs } from "node:util";
import { UserError } from "#domain/errors.ts";
import { closestMatch } from "#text/closest-match.ts";

export interface DemoOptions {
  help: boolean;
  /** True to play the story in the terminal, without a browser. */
  story: boolean;
  port: number | undefined;
  /** `provider:model`. */
  model: string | undefined;
}

const options = {
  help: { type: "boolean", short: "h" },
  story: { type: "boolean" },
  port: { type: "string" },
  model: { type: "string" },
} as const;

export const demoUsage = `Runs Golem Forge with a local stand-in for GitHub. No account and no API key are needed.

  npm run demo                                     start it and print its address
  npm run demo -- --port 4000                      use this port (default: 4000, or any free one)
  npm run demo -- --model anthropic:claude-haiku-4-5
                                                   use a real model; its API key is read from the environment
  npm run demo -- --story                          play one issue from /run to the merge in the terminal
  npm run demo -- --help                           show this help

With ANTHROPIC_API_KEY, OPENAI_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY set, workers use a real model; choose another one
with --model or GOLEM_FORGE_MODEL. Without a key, a scripted model answers, which has prepared steps on the sample
issue for every worker except explorer, and cannot work on any other issue.`;

/** Parses the command line. Throws a UserError that says what is wrong with it. */
export function parseDemoOptions(args: readonly string[]): DemoOptions {
  const { tokens, values } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind === "positional") throw new UserError(`Unexpected argument "${token.value}". Try --help.`);
    if (token.kind === "option" && !Object.hasOwn(options, token.name)) throw unknownOption(token.rawName, token.name);
  }
  return {
    help: values.help === true,
    story: values.story === true,
    port: parsePort(values.port),
    model: parseModel(values.model),
  };
}

function unknownOption(rawName: string, name: string): UserError {
  const near = closestMatch(name, Object.keys(options));
  return new UserError(`Unknown option ${rawName}.${near ? ` Did you mean --${near}?` : " Try --help."}`);
}

function parsePort(value: string | boolean | undefined): number | undefined {
  if (value === undefined) return undefined;
  const port = typeof value === "string" && /^\d{1,5}$/.test(value) ? Number(value) : Number.NaN;
  if (port >= 0 && port <= 65_535) return port;
  throw new UserError("--port must be a number from 0 to 65535, such as --port 4000.");
}

function parseModel(value: string | boolean | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "string" && /^[a-z][a-z0-9-]*:.+$/.test(value)) return value;
  throw new UserError("--model must be provider:model, such as --model anthropic:claude-haiku-4-5.");
}

/** The default model for each provider's key, in order of preference. */
const defaultModels: [variable: string, model: string][] = [
  ["ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"],
  ["OPENAI_API_KEY", "openai:gpt-6.1-sol"],
  ["GOOGLE_GENERATIVE_AI_API_KEY", "google:gemini-3.8-flash"],
];

/**
 * Returns the model for the demo: the requested one, GOLEM_FORGE_MODEL, or the default of the first provider with a key.
 * Returns undefined, for the scripted model, without a key or if the models of an OpenAI-compatible server are unknown.
 */
export function chooseModel(
  requested: string | undefined,
  environment: Record<string, string | undefined>,
): string | undefined {
  const named = requested ?? environment.GOLEM_FORGE_MODEL;
  if (named) return named;
  const [variable, model] = defaultModels.find(([name]) => environment[name]) ?? [];
  return variable === "OPENAI_API_KEY" && environment.OPENAI_BASE_URL ? undefined : model;
}
