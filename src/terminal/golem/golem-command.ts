import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { UserError } from "#domain/errors.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { visible } from "#terminal/style.ts";
import { closestMatch } from "#text/closest-match.ts";
import { type CommandContext, exitCodes } from "./command-context.ts";
import { help } from "./help.ts";
import { parseWords } from "./parse-words.ts";
import { readResumeRequest, readRunRequest } from "./run-request.ts";

const commands = ["run", "resume", "log", "workers", "setup", "doctor", "help"];

/** Executes a command line and resolves to its exit code. Prints one sentence when the command line is wrong. */
export async function golem(args: readonly string[], context: CommandContext): Promise<number> {
  // Words behind `--` belong to the task.
  const own = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  if (own.includes("--no-color")) process.env.NO_COLOR = "1";
  try {
    return await execute(args, own, context);
  } catch (error) {
    if (!(error instanceof UserError || error instanceof UnreadableDataError)) throw error;
    context.errors.write(`golem: ${visible(error.message)}\n`);
    return exitCodes.misused;
  }
}

async function execute(args: readonly string[], own: readonly string[], context: CommandContext): Promise<number> {
  const [command, ...rest] = args;
  if (command === undefined) {
    context.errors.write(help);
    return exitCodes.misused;
  }
  if (command === "help" || own.includes("--help") || own.includes("-h")) return say(help, context);
  if (command === "--version" || command === "-v") return say(`golem ${await readVersion()}\n`, context);
  switch (command) {
    case "run": {
      const request = readRunRequest(rest);
      // Models and tools are loaded only when a worker runs.
      const { runWorker } = await import("./run-worker.ts");
      return runWorker(request, context);
    }
    case "resume": {
      const request = readResumeRequest(rest);
      const { resumeRun } = await import("./run-worker.ts");
      return resumeRun(request, context);
    }
    case "log": {
      const { positionals } = parseWords(rest, { "no-color": { type: "boolean" } });
      const [run, stray] = positionals;
      if (stray !== undefined) throw new UserError(`golem log takes one run, but was also given ${stray}.`);
      const { showLog } = await import("./show-log.ts");
      return say(await showLog(run, context), context);
    }
    case "workers": {
      const { positionals } = parseWords(rest, { "no-color": { type: "boolean" } });
      if (positionals[0] !== undefined)
        throw new UserError(`golem workers takes no arguments, but was given ${positionals[0]}.`);
      const { listWorkers } = await import("./list-workers.ts");
      return say(await listWorkers(context), context);
    }
    case "setup":
    case "doctor": {
      const { doctor, setup } = await import("./deployment-commands.ts");
      return command === "setup" ? setup(rest, context) : doctor(rest, context);
    }
    default:
      throw new UserError(unknownCommand(command));
  }
}

function say(text: string, { output }: CommandContext): number {
  output.write(text);
  return exitCodes.answered;
}

function unknownCommand(given: string): string {
  if (given.startsWith("-")) return `There is no option ${given} before a command. See golem help.`;
  const near = closestMatch(given, commands);
  return `There is no command ${JSON.stringify(given)}.${near ? ` Did you mean golem ${near}?` : ""} See golem help.`;
}

async function readVersion(): Promise<string> {
  const file = fileURLToPath(new URL("../../../package.json", import.meta.url));
  return (JSON.parse(await readFile(file, "utf8")) as { version: string }).version;
}
