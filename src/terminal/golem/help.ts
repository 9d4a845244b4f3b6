import { UserError } from "#domain/errors.ts";

interface CommandHelp {
  usage: string;
  /** One line for the list of commands. */
  summary: string;
  /** Options and exit codes, for `golem help <command>`. */
  details?: string;
}

const runOptions = `  -m, --model provider:model    use this model instead of the worker's own or GOLEM_FORGE_MODEL
      --attach <file>           golem run only: attach an image, a PDF or a text file; repeat it for more
      --yes <tool>              approve every call of this tool in advance; repeat it for more, or use "all"
      --trust-tools             trust the code that a worker of this checkout uses, without asking
      --apply                   write the changes to the working tree at the end, without asking
      --patch <file>            write them to a patch file
      --branch                  commit them on a new branch golem/<id>
      --dry-run                 golem run only: show the worker, the files and the tools; call no model
  -q, --quiet                   show only questions, errors and the answer
      --json                    print one event per line, for scripts, and ask no questions
      --trace                   print every step on standard error
      --no-color                print without colors, as NO_COLOR=1 does

If standard output is not a terminal, only the answer is printed there:
answer=$(golem run …). Everything else is printed on standard error. Text that
is piped in is added to the task.

Without a terminal, calls that need approval are denied unless --yes names the
tool, and the changes are kept in a patch file. Its path is the last line on
standard error.

Exit codes: 0 answered, 1 failed or stopped by a limit, 2 not started, 130
interrupted.

Ctrl+C interrupts the worker, and you can continue it with a message. A second
Ctrl+C ends it: the changes are kept in a patch file, and golem resume continues
the run.
To choose a model, set GOLEM_FORGE_MODEL and its key, such as ANTHROPIC_API_KEY.
Without one: npm run demo.
`;

/** The commands of `golem`, in the order in which they are listed. */
export const commandHelp = {
  run: {
    usage: 'run <worker> ["task"]',
    summary: "run a worker on this checkout, or a program; the task may be piped in",
    details: runOptions.replaceAll("golem run only: ", ""),
  },
  resume: {
    usage: "resume [run]",
    summary: "continue a run after its terminal was closed or its process died",
    details: runOptions.replaceAll(/^.*golem run only: .*\n/gm, ""),
  },
  log: {
    usage: "log [run]",
    summary: "list the runs of this checkout, or show the transcript of one",
  },
  workers: {
    usage: "workers",
    summary: "list the workers of this checkout and the included ones",
  },
  check: {
    usage: "check [file…]",
    summary: "validate worker files and settings, by default all of this checkout",
    details: `  Prints file:line:column: message for each problem.

Exit codes: 0 no problem, 1 problems found, 2 nothing to check.
`,
  },
  init: {
    usage: "init [name]",
    summary: "write a first worker to .github/workers/, or the workflow of the GitHub Action",
    details: `  --action                      write .github/workflows/golem-forge.yml, which runs workers on GitHub without a server
  -m, --model provider:model    with --action: the model of the workers (default: GOLEM_FORGE_MODEL)
      --uses owner/repo@ref     with --action: run Golem Forge from this repository on GitHub instead of the npm package
`,
  },
  add: {
    usage: "add <owner/repo/name>",
    summary: "copy a worker from GitHub, after showing what it may do",
    details: `  --ref <branch, tag or commit> read the worker at this revision (default: the default branch)
  --yes                         write it without asking

The token in GITHUB_TOKEN or GH_TOKEN is used if there is one; GITHUB_API_URL
names an Enterprise Server.
`,
  },
  setup: {
    usage: "setup",
    summary: "register the GitHub App for a server, and write its settings to .env",
    details: `  --env-file <file>             write the server's settings to this file (default: .env)
`,
  },
  doctor: {
    usage: "doctor",
    summary: "check the settings and services of a server, or the GitHub Action of a checkout",
    details: `  --env-file <file>             read the server's settings from this file (default: .env, unless it is committed)
  --no-model-call               do not call the model
`,
  },
  action: {
    usage: "action",
    summary: "run one job of the GitHub Action; the workflow calls it",
    details: `It reads the event and the settings from the environment of a job of GitHub
Actions. See docs/github-action.md.

Exit codes: 0 every run waits or has ended, 2 a setting is missing or wrong,
130 cancelled.
`,
  },
  audit: {
    usage: "audit verify [commit]",
    summary: "check the ledger of approvals, or the approvals that a commit names",
    details: `  --database <URL or path>      the server's database (default: DATABASE_URL, also from .env)

Without a commit, the hash chain of the ledger is checked. With one, its
trailers are compared with the ledger.

Exit codes: 0 intact, 1 an entry is broken or the ledger does not confirm the
commit, 2 it cannot be read.
`,
  },
  costs: {
    usage: "costs",
    summary: "show what models have cost, by repository, worker and day",
    details: `  --from <day>, --to <day>      in UTC, such as 2026-01-31 (default: the last 30 days)
  --csv                         a row for each day, repository and worker
  --database <URL or path>      the server's database (default: DATABASE_URL, also from .env)
`,
  },
  db: {
    usage: "db <action>",
    summary: "back up, restore, copy, check or compact the server's database",
    details: `  backup <file>                 write a copy to a new file, while the server runs
  restore <file>                replace the database with a backup; the server must be stopped
  copy --from sqlite:<file> --to postgres://…
                                copy everything to an empty PostgreSQL database; the server must be stopped
  check                         check the database and its ledger of approvals
  compact                       free the space of removed data (SQLite); the server must be stopped

      --database <URL or path>  the server's database (default: DATABASE_URL, also from .env)

Over PostgreSQL, backup and restore run pg_dump and pg_restore. Set PGPASSWORD
if an address has no password.

Exit codes: 0 done, 1 the database is damaged, 2 the action failed.
`,
  },
  eval: {
    usage: "eval [task…]",
    summary: "run tasks with models, and report which were solved at what cost",
    details: `A task is a folder with a task.yml, a folder of such folders, or a file in
SWE-bench's format (.jsonl). Default: the folder evals of the current folder,
otherwise the included tasks.

  -m, --model provider:model    evaluate this model; repeat it for more (default: GOLEM_FORGE_MODEL)
      --repeat <number>         attempts at each task with each model (default: 1)
      --parallel <number>       attempts at one time (default: 2)
  -o, --output <file>           write the results to this file, one JSON object per line
      --resume <file>           continue an interrupted evaluation with the attempts that are missing or crashed
      --compare <file> <file>   show the differences between two results files, or reports of SWE-bench's evaluation
      --worker <worker>         for SWE-bench: the worker (default: fixer)
      --repositories <folder>   for SWE-bench: clones, as owner__name (default: fetch from github.com)
      --test-command <command>  for SWE-bench: runs {tests} (default: python3 -m pytest)
      --predictions <file>      write the patches for SWE-bench's own evaluation
      --trust-tools             trust the tasks: their workers' code, and files outside of them
      --unsafe-checks           run setup and checks on this machine without a sandbox

All calls that need approval are approved and counted. The workers cannot use
GitHub or the web, and cannot ask anyone.

Exit codes: 0 every attempt completed, 1 an attempt crashed, 2 not started, 130
interrupted.
`,
  },
  completion: {
    usage: "completion <shell>",
    summary: "print a completion script for bash, zsh or fish",
    details: `  bash: source <(golem completion bash)
  zsh:  source <(golem completion zsh)
  fish: golem completion fish | source
`,
  },
  help: { usage: "help [command]", summary: "show this text, or the options of a command" },
} satisfies Record<string, CommandHelp>;

export type CommandName = keyof typeof commandHelp;

export function helpText(command?: CommandName): string {
  if (command !== undefined) {
    const { usage, summary, details = "" }: CommandHelp = commandHelp[command];
    return `golem ${usage}\n\n${summary[0]?.toUpperCase()}${summary.slice(1)}.\n${details && `\n${details}`}`;
  }
  const width = Math.max(...Object.values(commandHelp).map(({ usage }) => usage.length));
  const rows = Object.values(commandHelp).map(({ usage, summary }) => `  golem ${usage.padEnd(width)}  ${summary}`);
  return `golem runs a worker on the git checkout in the current folder. The worker
changes files in memory only: nothing on disk changes until you have seen the
changes and chosen what to do with them.

${rows.join("\n")}
  golem ${"--version".padEnd(width)}  show the version of golem

Options of golem run and golem resume
${runOptions}`;
}

const commands = Object.keys(commandHelp).join(" ");

// Each line of `golem workers` begins with the name of a worker, and each of `golem log` with the id of a run. The file of a
// worker may have any name, and bash runs the commands in a list of words.
const listWorkers = "golem workers --no-color 2>/dev/null | cut -d ' ' -f 1 | grep -x '[A-Za-z0-9][A-Za-z0-9_-]*'";
const listRuns = "golem log --no-color 2>/dev/null | cut -d ' ' -f 1";

/** The long options that the help of a command lists. */
const optionsOf = ({ details = "" }: CommandHelp) => details.match(/(?<=^ .*)--[a-z-]+/gm) ?? [];
const commandOptions = Object.entries<CommandHelp>(commandHelp).flatMap(([name, help]) => {
  const options = [...new Set(optionsOf(help))].join(" ");
  return options === "" ? [] : [{ name, options }];
});

const scripts: Record<string, string> = {
  bash: `_golem() {
  local current=\${COMP_WORDS[COMP_CWORD]}
  case $current:\${COMP_WORDS[1]} in
${commandOptions.map(({ name, options }) => `    -*:${name}) COMPREPLY=($(compgen -W "${options}" -- "$current")); return ;;`).join("\n")}
  esac
  case \${COMP_CWORD}:\${COMP_WORDS[1]} in
    1:*) COMPREPLY=($(compgen -W "${commands}" -- "$current")) ;;
    2:run) COMPREPLY=($(compgen -W "$(${listWorkers})" -- "$current")) ;;
    2:log|2:resume) COMPREPLY=($(compgen -W "$(${listRuns})" -- "$current")) ;;
    2:help) COMPREPLY=($(compgen -W "${commands}" -- "$current")) ;;
    2:completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -F _golem golem
`,
  zsh: `_golem() {
  case $words[CURRENT]:$words[2] in
${commandOptions.map(({ name, options }) => `    -*:${name}) compadd -- ${options}; return ;;`).join("\n")}
  esac
  case $CURRENT:$words[2] in
    2:*) compadd ${commands} ;;
    3:run) compadd \${(f)"$(${listWorkers})"} ;;
    3:log|3:resume) compadd \${(f)"$(${listRuns})"} ;;
    3:help) compadd ${commands} ;;
    3:completion) compadd bash zsh fish ;;
    *) _files ;;
  esac
}
compdef _golem golem
`,
  fish: `complete -c golem -n __fish_use_subcommand -f -a "${commands}"
complete -c golem -n "__fish_seen_subcommand_from run" -f -a "(${listWorkers})"
complete -c golem -n "__fish_seen_subcommand_from log resume" -f -a "(${listRuns})"
complete -c golem -n "__fish_seen_subcommand_from help" -f -a "${commands}"
complete -c golem -n "__fish_seen_subcommand_from completion" -f -a "bash zsh fish"
${commandOptions
  .map(({ name, options }) =>
    options
      .split(" ")
      .map((option) => `complete -c golem -n "__fish_seen_subcommand_from ${name}" -l ${option.slice(2)}\n`)
      .join(""),
  )
  .join("")}`,
};

/** Returns the completion script of a shell. Throws a UserError for another shell. */
export function completionScript(shell: string | undefined): string {
  const script = shell !== undefined && Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
  if (script === undefined) throw new UserError("Name a shell: golem completion bash, zsh or fish.");
  return script;
}
