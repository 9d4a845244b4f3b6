import { readFile } from "node:fs/promises";
import type { Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { UserError } from "#domain/errors.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { columnsOf, visible, wrapLines, writeWrapped } from "#terminal/style.ts";
import { didYouMean } from "#text/closest-match.ts";
import { type CommandContext, exitCodes, parseWords } from "./command-context.ts";
import { type CommandName, commandHelp, helpText } from "./help.ts";
import { readResumeRequest, readRunRequest } from "./run-request.ts";

type Handler = (args: readonly string[], context: CommandContext) => Promise<number>;

// Models and tools are loaded only by the commands that use them.
const handlers: Record<CommandName, Handler> = {
  async run(args, context) {
    const request = readRunRequest(args);
    const { runWorker } = await import("./run-worker.ts");
    return runWorker(request, context);
  },
  async resume(args, context) {
    const request = readResumeRequest(args);
    const { resumeRun } = await import("./run-worker.ts");
    return resumeRun(request, context);
  },
  async log(args, context) {
    const [run] = positionalsOf("log", args, 1);
    const { showLog } = await import("./show-log.ts");
    return print(await showLog(run, context), context);
  },
  async workers(args, context) {
    positionalsOf("workers", args, 0);
    const { listWorkers } = await import("./local-workers.ts");
    return print(await listWorkers(context), context);
  },
  async check(args, context) {
    const { checkFiles } = await import("./check-files.ts");
    return checkFiles(positionalsOf("check", args, Infinity), context);
  },
  async init(args, context) {
    const { init } = await import("./write-files.ts");
    return print(await init(args, context, readVersion), context);
  },
  async add(args, context) {
    const { addWorker } = await import("./write-files.ts");
    return addWorker(args, context);
  },
  async setup(args, context) {
    const { setup } = await import("./deployment-commands.ts");
    return setup(args, context);
  },
  async doctor(args, context) {
    const { doctor } = await import("./deployment-commands.ts");
    return doctor(args, context);
  },
  async action(args, context) {
    positionalsOf("action", args, 0);
    const { runAction } = await import("#action/run-action.ts");
    return runAction(context.env, context);
  },
  async audit(args, context) {
    const { audit } = await import("./database-commands.ts");
    return audit(args, context);
  },
  async costs(args, context) {
    const { costs } = await import("./database-commands.ts");
    return costs(args, context);
  },
  async db(args, context) {
    const { database } = await import("./database-commands.ts");
    return database(args, context);
  },
  async eval(args, context) {
    const { evaluate } = await import("./eval.ts");
    return evaluate(args, context);
  },
  async completion(args, context) {
    const [shell] = positionalsOf("completion", args, 1);
    const { completionScript } = await import("./help.ts");
    context.output.write(completionScript(shell));
    return exitCodes.answered;
  },
  async help(args, context) {
    const [name] = positionalsOf("help", args, 1);
    if (name !== undefined && !isCommand(name)) throw new UserError(unknownCommand(name));
    return printHelp(name, context.output);
  },
};

/** Executes a command line and resolves to its exit code. Prints one sentence if the command line is invalid. */
export async function golem(args: readonly string[], context: CommandContext): Promise<number> {
  // Words after `--` belong to the task.
  const own = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  if (own.includes("--no-color")) process.env.NO_COLOR = "1";
  try {
    return await execute(args, own, context);
  } catch (error) {
    if (!(error instanceof UserError || error instanceof UnreadableDataError)) throw error;
    writeWrapped(context.errors, `golem: ${visible(error.message)}\n`);
    return exitCodes.misused;
  }
}

async function execute(args: readonly string[], own: readonly string[], context: CommandContext): Promise<number> {
  const [command, ...rest] = args;
  if (command === undefined) {
    printHelp(undefined, context.errors);
    return exitCodes.misused;
  }
  if (command === "--version" || command === "-v") return print(`golem ${await readVersion()}\n`, context);
  const asksForHelp = own.includes("--help") || own.includes("-h");
  if (asksForHelp) return printHelp(isCommand(command) ? command : undefined, context.output);
  if (!isCommand(command)) throw new UserError(unknownCommand(command));
  return handlers[command](rest, context);
}

function isCommand(name: string): name is CommandName {
  return Object.hasOwn(commandHelp, name);
}

/** Parses a command line without options. Throws a UserError for an option, and for more than `max` words. */
function positionalsOf(command: CommandName, args: readonly string[], max: number): string[] {
  const { positionals } = parseWords(args, { "no-color": { type: "boolean" } });
  const stray = positionals[max];
  if (stray === undefined) return positionals;
  const takes = max === 0 ? "no arguments" : "one argument";
  throw new UserError(`golem ${command} takes ${takes}, but was also given ${stray}.`);
}

/** Prints the help, also wrapped where it is piped, such as to a pager. */
function printHelp(command: CommandName | undefined, output: Writable): number {
  output.write(wrapLines(helpText(command), columnsOf(output)));
  return exitCodes.answered;
}

function print(text: string, { output }: CommandContext): number {
  writeWrapped(output, text);
  return exitCodes.answered;
}

function unknownCommand(given: string): string {
  if (given.startsWith("-")) {
    return `Unknown option ${given} before a command.${didYouMean(given, ["--help", "--version"])} See golem help.`;
  }
  return `Unknown command ${JSON.stringify(given)}.${didYouMean(given, Object.keys(commandHelp), "golem ")} See golem help.`;
}

async function readVersion(): Promise<string> {
  const file = fileURLToPath(new URL("../../../package.json", import.meta.url));
  return (JSON.parse(await readFile(file, "utf8")) as { version: string }).version;
}
