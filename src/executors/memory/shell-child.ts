import { Bash, type BashExecResult, InMemoryFs } from "just-bash";
import { type Parent, serveParent } from "#executors/serve-parent.ts";
import { guardedDeletions } from "./deletion-guard.ts";
import { gitCommand } from "./git-command.ts";
import { IndexedFs } from "./indexed-fs.ts";
import { loadedTree, root } from "./loaded-tree.ts";
import { searchCommand } from "./search-command.ts";
import type { ShellReply, ShellRequest } from "./shell-request.ts";
import { outputFiles, streamStatements } from "./stream-statements.ts";
import { unavailableCommands } from "./unavailable-commands.ts";

type Setting = Pick<ShellRequest, "cwd" | "env" | "timeoutMs" | "outputBytes">;

const fileSystemBytes = 192_000_000;

const fs = new IndexedFs({}, { maxTotalBytes: fileSystemBytes });
fs.mkdirSync(root, { recursive: true });
fs.mkdirSync("/tmp", { recursive: true });
const tree = loadedTree(fs);

/** The request that is being answered. A shell that was created ahead of it looks here when a command needs it. */
let present:
  | (Pick<ShellRequest, "head" | "outputBytes"> & { parent: Parent; written: number; stop: AbortController })
  | undefined;
let ahead: { setting: string; bash: Bash } | undefined;

const customCommands = [
  searchCommand("rg", fs),
  searchCommand("grep", fs),
  gitCommand({
    fs,
    tree,
    get head() {
      return present?.head ?? { commit: "", branch: "" };
    },
    ask: async (question) => present?.parent.ask(question),
  }),
  ...guardedDeletions(),
  ...unavailableCommands(),
];

function makeBash({ cwd, env, timeoutMs, outputBytes }: Setting, over: InMemoryFs = fs): Bash {
  const bash = new Bash({
    fs: over,
    cwd: cwd === "" ? root : `${root}/${cwd}`,
    env: { HOME: "/tmp", USER: "golem", LANG: "C.UTF-8", ...env },
    customCommands,
    executionLimitProfile: "hardened",
    executionLimits: {
      maxExecutionTimeMs: timeoutMs,
      maxOutputSize: outputBytes,
      maxFileSystemBytes: fileSystemBytes,
    },
  });
  bash.registerTransformPlugin(streamStatements);
  return bash;
}

function settingOf({ cwd, env, timeoutMs, outputBytes }: Setting): string {
  return JSON.stringify({ cwd, env, timeoutMs, outputBytes });
}

/** A shell in which no command has run. */
function freshBash(request: Setting): Bash {
  const made = ahead?.setting === settingOf(request) ? ahead.bash : makeBash(request);
  ahead = undefined;
  return made;
}

for (const [stream, path] of Object.entries(outputFiles)) {
  fs.divert(path, (content) => {
    if (!present) return;
    present.written += content.length;
    if (present.written > present.outputBytes) present.stop.abort();
    else present.parent.send({ stream, content });
  });
}

async function run(request: ShellRequest, parent: Parent): Promise<ShellReply> {
  const { head, outputBytes } = request;
  const stop = new AbortController();
  present = { head, outputBytes, parent, written: 0, stop };
  await tree.take(request.write, request.remove);
  const bash = freshBash(request);
  // The arguments are `$1` and on, as `bash -c script bash "$@"` has them; they never pass through a shell's parser.
  const start = request.args.length > 0 ? `set -- ${request.args.map(quote).join(" ")}\n` : "";
  const options = { stdin: request.stdin, rawScript: true, signal: stop.signal };
  const ended = await bash.exec(start + request.script, options);
  const changes = await tree.differences();
  tree.settle(changes);
  // Making a shell takes as long as a short command, so the next one is made while nobody waits.
  setImmediate(() => {
    ahead ??= { setting: settingOf(request), bash: makeBash(request) };
  });
  return { ...restOf(ended, stop.signal.aborted), ...changes };
}

/** The exit code and the output that was not streamed, such as that of a statement that a limit ended. */
function restOf(ended: BashExecResult, isTooMuch: boolean): Pick<ShellReply, "exitCode" | "stdout" | "stderr"> {
  const { stdout, stderr, exitCode, stdoutKind } = ended;
  if (isTooMuch) return { exitCode: 126, stdout: "", stderr: "bash: the output is too long\n" };
  const bytes = stdoutKind === "bytes" ? Buffer.from(stdout, "latin1").toString("utf8") : stdout;
  return { exitCode, stdout: bytes, stderr };
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** The first command in a process takes twenty times as long as the second: this one is nobody's. */
async function warmUp(): Promise<void> {
  const nowhere = new InMemoryFs();
  nowhere.mkdirSync(root, { recursive: true });
  const setting: Setting = { cwd: "", env: {}, timeoutMs: 1_000, outputBytes: 1_000 };
  await makeBash(setting, nowhere).exec("echo warm | wc -l", { rawScript: true });
}

serveParent((request, parent) => run(request as ShellRequest, parent), { before: warmUp });
