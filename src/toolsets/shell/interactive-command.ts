import { withInner } from "./inner-commands.ts";
import { inspectScript } from "./inspect-script.ts";
import type { SimpleCommand } from "./simple-command.ts";

const always = new Map([
  ...["vi", "vim", "nvim", "nano", "emacs", "pico", "ed"].map(
    (name) => [name, "Edit files with the file tools or sed."] as const,
  ),
  ...["less", "more", "most"].map((name) => [name, "Use cat, head, tail or sed -n."] as const),
  ...["top", "htop", "btop", "watch"].map((name) => [name, "Use ps."] as const),
  ...["ssh", "sftp", "telnet", "ftp", "mosh"].map((name) => [name, "There is no network here."] as const),
  ...["tmux", "screen", "script"].map((name) => [name, "Run the command itself."] as const),
  ...["passwd", "su", "login", "fzf", "mc", "ranger", "dialog", "whiptail"].map(
    (name) => [name, "Nobody can answer it here."] as const,
  ),
]);

const promptWhenBare = new Set(
  "python python2 python3 ipython node deno bun ruby irb perl php lua ghci R julia bash sh zsh dash fish psql mysql sqlite3 redis-cli mongosh bc gdb".split(
    " ",
  ),
);

/** Explains which command would wait for keyboard input and what to run instead; undefined if there is none. */
export function interactiveProblem(line: string): string | undefined {
  const inspection = inspectScript(line);
  if (inspection.kind === "notInspectable") return undefined;
  for (const command of inspection.commands.flatMap(withInner)) {
    const problem = problemOf(command);
    if (problem) return problem;
  }
  return undefined;
}

function problemOf({ words, hasInput }: SimpleCommand): string | undefined {
  const [name = "", ...args] = words.map(({ text }) => text);
  const program = name.slice(name.lastIndexOf("/") + 1);
  const asks = (why: string) => `${program} waits for input from a keyboard, and there is none. ${why}`;

  const hint = always.get(program);
  if (hint && !args.some((arg) => arg === "--version" || arg === "--help")) return asks(hint);
  if (promptWhenBare.has(program) && !hasInput && (args.length === 0 || args.every((arg) => arg === "-i"))) {
    return asks("Give it a script, with -c, -e or a file.");
  }
  if (program === "git") return gitProblem(args, asks);
  if (program === "npm" && args[0] === "init" && !args.some((arg) => /^-(y|-yes)$/.test(arg)))
    return asks("Add --yes.");
  if (program === "tail" && args.some((arg) => /^(-\w*[fF]\w*|--follow.*)$/.test(arg)))
    return asks("Use tail without -f.");
  if (program === "crontab" && args.includes("-e")) return asks("Write the file instead.");
  return undefined;
}

function gitProblem(args: readonly string[], asks: (why: string) => string): string | undefined {
  const [command, ...rest] = args;
  const has = (...options: string[]) => rest.some((arg) => options.includes(arg));
  if (command === "rebase" && has("-i", "--interactive")) return asks("Rebase without -i.");
  if (
    (command === "add" || command === "checkout" || command === "reset" || command === "stash") &&
    has("-p", "-i", "--patch", "--interactive")
  ) {
    return asks("Name the paths instead.");
  }
  if (
    command === "commit" &&
    !rest.some((arg) => /^(-\w*[mFC]|--message|--file|--no-edit|--reuse-message)/.test(arg))
  ) {
    return asks("Give the message with -m.");
  }
  return undefined;
}
