import { UserError } from "#domain/errors.ts";
import { cleanText } from "#text/untrusted.ts";
import { type ParsedCommand, parseCommand } from "./command.ts";

/** The place of a command: a comment in a thread, or the page of a run. */
type CommandFrontEnd = "thread" | "page";

interface RunCommand {
  /** The syntax, without the slash. */
  usage: string;
  /** Completes the sentence "This command …". Markdown. */
  help: string;
  frontEnds: readonly CommandFrontEnd[];
  /** In a thread without a run it is ignored: it may be another bot's command. */
  needsRun?: true;
}

/** The commands for runs, in the order of `/help`. */
export const runCommands = {
  run: {
    usage: "run <worker> [task]",
    help: "starts a worker, or continues its run that has a pull request here; the task may continue on the following lines. `/run` alone lists the workers",
    frontEnds: ["thread"],
  },
  approve: {
    usage: "approve [id or all] [session]",
    help: "approves a request; add `session` to approve identical calls later in this run. A JSON object in a fenced block on the next lines replaces the arguments; with any other text, nothing is approved. `/approve +$2` raises the cost limit of the run that has used it up; if several have, add the run's id before the amount",
    frontEnds: ["thread", "page"],
  },
  deny: {
    usage: "deny [id or all] [reason]",
    help: "denies a request; the reason is passed to the worker",
    frontEnds: ["thread", "page"],
  },
  revoke: {
    usage: "revoke <id> [reason]",
    help: "revokes an approval, until its call begins; for an approval with `session`, identical calls ask again",
    frontEnds: ["thread", "page"],
  },
  stop: {
    usage: "stop",
    help: "pauses all workers in this thread; until you resume them, no event or schedule starts one here",
    frontEnds: ["thread", "page"],
  },
  resume: {
    usage: "resume [instructions]",
    help: "resumes the paused workers, with your instructions if you add any; with instructions it also continues a run that waits for a review",
    frontEnds: ["thread", "page"],
  },
  retry: {
    usage: "retry",
    help: "tries again: at once after a failed model call, or from the start when the worker has ended",
    frontEnds: ["thread", "page"],
    needsRun: true,
  },
  clear: {
    usage: "clear",
    help: "clears the conversation but keeps the worker's changes",
    frontEnds: ["thread"],
    needsRun: true,
  },
  model: {
    usage: "model [provider:model]",
    help: "shows the models that the worker may use, or switches to one",
    frontEnds: ["thread", "page"],
    needsRun: true,
  },
  exit: {
    usage: "exit",
    help: "ends the newest worker, with what it has done as its result",
    frontEnds: ["thread", "page"],
    needsRun: true,
  },
  cancel: {
    usage: "cancel",
    help: "ends all workers in this thread for good",
    frontEnds: ["thread", "page"],
  },
  status: { usage: "status", help: "shows what is running, what is waiting, and the cost", frontEnds: ["thread"] },
  diff: { usage: "diff", help: "shows the changes of the newest worker", frontEnds: ["thread"], needsRun: true },
  log: { usage: "log", help: "shows the latest steps of the newest worker", frontEnds: ["thread"], needsRun: true },
  cost: {
    usage: "cost",
    help: "shows what the workers of this thread have cost",
    frontEnds: ["thread"],
    needsRun: true,
  },
  ready: {
    usage: "ready",
    help: "marks the worker's draft pull request as ready for review",
    frontEnds: ["thread", "page"],
    needsRun: true,
  },
  update: {
    usage: "update",
    help: "asks the worker to merge the base branch into its pull request",
    frontEnds: ["thread", "page"],
    needsRun: true,
  },
  undo: {
    usage: "undo",
    help: "reverts the worker's last push with a new commit, after you confirm it",
    frontEnds: ["thread", "page"],
    needsRun: true,
  },
  tool: {
    usage: "tool <name> [--option value]",
    help: "runs a tool of the newest worker yourself; `/t …` and `/<name> …` do the same, and `/tool <name> -i` shows its options",
    frontEnds: ["thread"],
  },
  tools: { usage: "tools", help: "lists the tools you can run", frontEnds: ["thread"] },
  help: { usage: "help", help: "lists these commands and the workers", frontEnds: ["thread"] },
} as const satisfies Record<string, RunCommand>;

export type RunCommandName = keyof typeof runCommands;

/** True for a command that is ignored in a thread without a run. */
export function needsRun(command: string): boolean {
  const commands: Readonly<Record<string, RunCommand>> = runCommands;
  return commands[command]?.needsRun === true;
}

export type RunCommandOf<FrontEnd extends CommandFrontEnd> = {
  [Name in RunCommandName]: FrontEnd extends (typeof runCommands)[Name]["frontEnds"][number] ? Name : never;
}[RunCommandName];

/** The tool command that `/undo` stands for. */
export const undoCommand = "/tool undo_push";

/** Parses a command line for the tools of a run: `/tool git_push --branch main`. Throws a UserError. */
export function parseToolCommand(line: string): ParsedCommand {
  const parsed = parseCommand(cleanText(line).text.trim());
  if (!parsed) throw new UserError("A command begins with a slash, such as `/tools`.");
  return parsed;
}

/** The reply to a command in a thread where no worker runs that it could be for. */
export const noWorkerRunning = "No worker is running in this thread. Start one with `/run fixer`.";
