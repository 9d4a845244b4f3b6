/** The text of `golem help`. */
export const help = `golem runs a worker on the git checkout you are in. The worker changes files in memory only;
nothing on disk changes until you have seen the changes and chosen what to do with them.

  golem run <worker> ["task"]   the task may also be piped in; otherwise golem asks for it
  golem resume [run]            continue a run after its terminal was closed or its process died
  golem log [run]               list the runs of this checkout, or show the transcript of one
  golem workers                 list the workers: those in .github/workers/, then those that ship
  golem setup                   register the GitHub App for a server, and write its settings to .env
  golem doctor                  check a server's settings, App, webhook, model, sandbox and database
  golem help, golem --version

Options of golem run and golem resume
  -m, --model provider:model    use this model instead of the worker's own or GOLEM_FORGE_MODEL
      --yes <tool>              approve every call of this tool in advance; repeat it for more, or use "all"
      --trust-tools             trust the code that a worker of this checkout brings, without asking
      --apply                   write the changes to the working tree at the end, without asking
      --patch <file>            write them to a patch file
      --branch                  commit them on a new branch golem/<id>
      --dry-run                 golem run only: show the worker, the files and the tools; call no model
      --json                    print one event per line, for scripts; nobody is asked anything
      --trace                   print every step on standard error
      --no-color                also NO_COLOR=1

Without a terminal, calls that need approval are denied unless --yes names the tool, and the changes are kept in
a patch file. Its path is the last line of the output.

Exit codes: 0 answered, 1 failed or stopped by a limit, 2 not started, 130 interrupted.

Ctrl+C interrupts the worker, and you may say something to continue. A second Ctrl+C ends it: the changes are kept
in a patch file, and golem resume continues the run.
To choose a model, set GOLEM_FORGE_MODEL and its key, such as ANTHROPIC_API_KEY. Without one: npm run demo.
`;
