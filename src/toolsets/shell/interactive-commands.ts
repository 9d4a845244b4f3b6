import { readScript } from "./plain-script.ts";
import { programName, type SimpleCommand } from "./simple-command.ts";
import { startedBy } from "./started-commands.ts";

const editors = "vi vim nvim nano emacs pico ed";
const hints: Record<string, string> = {
  [editors]: "Edit files with the file tools or sed.",
  "less more most": "Use cat, head, tail or sed -n.",
  "top htop btop watch": "Use ps.",
  "ssh sftp telnet ftp mosh": "There is no network here.",
  "tmux screen script": "Run the command itself.",
  "passwd su login fzf mc ranger dialog whiptail": "Nobody can answer it here.",
};
const hintByProgram = new Map(
  Object.entries(hints).flatMap(([programs, hint]) => programs.split(" ").map((program) => [program, hint] as const)),
);
const promptWhenBare = new Set(
  "python python2 python3 ipython node deno bun ruby irb perl php lua ghci R julia bash sh zsh dash fish psql mysql sqlite3 redis-cli mongosh bc gdb".split(
    " ",
  ),
);

/** Explains which command would wait for keyboard input and what to run instead; undefined if there is none. */
export function interactiveProblem(line: string): string | undefined {
  const script = readScript(line);
  if (script.kind === "notInspectable") return undefined;
  for (const command of [...script.commands, ...script.commands.flatMap(startedBy)]) {
    const hint = hintFor(command);
    if (hint) return `${programName(command)} waits for input from a keyboard, and there is none. ${hint}`;
  }
  return undefined;
}

function hintFor(command: SimpleCommand): string | undefined {
  const program = programName(command);
  const args = command.words.slice(1).map(({ text }) => text);
  const [subcommand, ...rest] = args;
  const hint = hintByProgram.get(program);
  if (hint && !args.some((arg) => arg === "--version" || arg === "--help")) return hint;
  if (promptWhenBare.has(program) && !command.hasInput && args.every((arg) => arg === "-i"))
    return "Give it a script, with -c, -e or a file.";
  if (program === "git" && subcommand) return gitHint(subcommand, rest);
  if (program === "npm" && subcommand === "init" && !rest.some((arg) => /^(-y|--yes)$/.test(arg))) return "Add --yes.";
  if (program === "tail" && args.some((arg) => /^(-\w*[fF]\w*|--follow.*)$/.test(arg))) return "Use tail without -f.";
  if (program === "crontab" && args.includes("-e")) return "Write the file instead.";
  return undefined;
}

function gitHint(subcommand: string, args: readonly string[]): string | undefined {
  const has = (...options: string[]) => args.some((arg) => options.includes(arg));
  if (subcommand === "rebase" && has("-i", "--interactive")) return "Rebase without -i.";
  if (/^(add|checkout|reset|stash)$/.test(subcommand) && has("-p", "-i", "--patch", "--interactive"))
    return "Name the paths instead.";
  const isMessageGiven = args.some((arg) => /^(-\w*[mFC]|--message|--file|--no-edit|--reuse-message)/.test(arg));
  if (subcommand === "commit" && !isMessageGiven) return "Give the message with -m.";
  return undefined;
}
