/** What `golem help` says. */
export const help = `golem puts a worker on the git checkout you are in. It works in memory; nothing on disk
changes until you have seen what it did and said so.

  golem run <worker> ["task"]   the task may come from the input, or is asked for
  golem workers                 the workers there are: .github/workers/ first, then those that ship
  golem setup                   register the GitHub App for a server, and write its settings to .env
  golem doctor                  check a server's settings, App, webhook, model, sandbox and database
  golem help, golem --version

Options of golem run
  -m, --model provider:model    instead of the worker's own, or GOLEM_FORGE_MODEL
      --yes <tool>              approve every call of this tool beforehand; again for more, or "all"
      --trust-tools             trust the code that a worker of this checkout brings, without asking
      --apply                   write the changes to the working tree at the end, without asking
      --patch <file>            write them to a patch file
      --branch                  commit them on a new branch golem/<id>
      --dry-run                 say what would run, with which tools, and ask no model
      --json                    one event per line, for scripts; nobody is asked anything
      --trace                   every step on standard error
      --no-color                also NO_COLOR=1

Where nobody can be asked, what needs approval is denied unless --yes names it, and changes are backup in a
patch file whose path is the last thing said.

Exit codes: 0 answered, 1 failed or stopped by a limit, 2 nothing was started, 130 interrupted.

Ctrl+C once interrupts the worker, and you may say something; twice ends it, and keeps the changes in a patch file.
The model: set GOLEM_FORGE_MODEL and its key, such as ANTHROPIC_API_KEY. Without one: npm run demo.
`;
