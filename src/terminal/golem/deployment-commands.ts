import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv, styleText } from "node:util";
import { readServerAddress } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import { findRoot } from "#sandbox/checkout/open-checkout.ts";
import { runActionChecks } from "#setup/check-action.ts";
import { runChecks } from "#setup/doctor.ts";
import type { DoctorCheck } from "#setup/doctor-check.ts";
import { isConfigured } from "#setup/env-file.ts";
import { nextSteps, startSetupServer } from "#setup/setup-server.ts";
import { visible, writeWrapped } from "#terminal/style.ts";
import {
  type CommandContext,
  exitCodes,
  hasCommittedEnvFile,
  parseWords,
  readEnvFile,
  refuseArguments,
  type Words,
} from "./command-context.ts";

/** `golem setup`: serves the page that registers the App, until the App is registered. */
export async function setup(args: readonly string[], context: CommandContext): Promise<number> {
  const { options } = parseWords(args, { "env-file": { type: "string" }, "no-color": { type: "boolean" } });
  const envFile = envFileOf(options);
  if (envFile === undefined && (await hasCommittedEnvFile(context.cwd))) {
    throw new UserError(".env is committed to this repository, so secrets must not be written to it. Use --env-file.");
  }
  const env = await environmentOf(context, envFile);
  const page = await startSetupServer({ ...readServerAddress(env), envFile: envFile ?? join(context.cwd, ".env") });
  context.output.write(`Open this address in a browser to register the GitHub App:\n\n  ${page.url}\n\n`);
  const app = await page.registered;
  await page.close();
  writeWrapped(context.output, nextSteps(app));
  return exitCodes.answered;
}

const marks = { ok: ["green", "✓"], warning: ["yellow", "!"], problem: ["red", "✗"] } as const;

/** `golem doctor`: prints one line for each check, followed by its fix if it failed. Exits with 1 if there is a problem. */
export async function doctor(args: readonly string[], context: CommandContext): Promise<number> {
  const { options, positionals } = parseWords(args, {
    "env-file": { type: "string" },
    "no-model-call": { type: "boolean" },
    "no-color": { type: "boolean" },
  });
  refuseArguments("golem doctor", positionals);
  const environment = await environmentOf(context, envFileOf(options));
  let code: number = exitCodes.answered;
  for await (const result of checksOf(environment, { context, callModel: !options.has("no-model-call") })) {
    writeWrapped(context.output, lineOf(result, context));
    if (result.status === "problem") code = exitCodes.failed;
  }
  return code;
}

/** Runs the server's checks and, in a checkout that has the workflow, those of the GitHub Action. */
async function* checksOf(
  environment: Record<string, string | undefined>,
  { context, callModel }: { context: CommandContext; callModel: boolean },
): AsyncGenerator<DoctorCheck> {
  const root = await findRoot(context.cwd).catch(() => undefined);
  let usesAction = false;
  for await (const result of root === undefined ? [] : runActionChecks(root, environment)) {
    usesAction = true;
    yield result;
  }
  if (!usesAction || isConfigured(environment)) yield* runChecks(environment, { callModel });
}

function envFileOf(options: Words["options"]): string | undefined {
  const given = options.get("env-file")?.at(-1);
  return typeof given === "string" ? given : undefined;
}

function lineOf({ name, status, detail, fix }: DoctorCheck, { output }: CommandContext): string {
  const [color, mark] = marks[status];
  const shown = styleText(color, mark, { stream: output as NodeJS.WriteStream });
  return `${shown} ${visible(name)}: ${visible(detail)}\n${fix ? `    → ${visible(fix)}\n` : ""}`;
}

/** Returns the environment plus the variables of the env file. Variables that are already set take precedence. */
async function environmentOf(
  context: CommandContext,
  given: string | undefined,
): Promise<Record<string, string | undefined>> {
  if (given === undefined) return { ...(await readEnvFile(context)), ...context.env };
  if (!existsSync(given)) throw new UserError(`File ${given} not found.`);
  return { ...parseEnv(await readFile(given, "utf8")), ...context.env };
}
