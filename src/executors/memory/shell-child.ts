import { Bash, InMemoryFs } from "just-bash";
import { type AskParent, serveParent } from "#executors/serve-parent.ts";
import { guardedDeletions } from "./deletion-guard.ts";
import { gitCommand } from "./git-command.ts";
import { IndexedFs } from "./indexed-fs.ts";
import { loadedTree, root } from "./loaded-tree.ts";
import { searchCommand } from "./search-command.ts";
import type { ShellReply, ShellRequest } from "./shell-request.ts";
import { unavailableCommands } from "./unavailable-commands.ts";

type Setting = Pick<ShellRequest, "cwd" | "env" | "timeoutMs" | "outputBytes">;

const fileSystemBytes = 192_000_000;

const fs = new IndexedFs({}, { maxTotalBytes: fileSystemBytes });
fs.mkdirSync(root, { recursive: true });
fs.mkdirSync("/tmp", { recursive: true });
const tree = loadedTree(fs);

/** Of the request that is being answered: a shell that was made ahead asks for them when it needs them. */
let present: { head: ShellRequest["head"]; ask: AskParent } | undefined;
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
    ask: async (question) => present?.ask(question),
  }),
  ...guardedDeletions(),
  ...unavailableCommands(),
];

function makeBash({ cwd, env, timeoutMs, outputBytes }: Setting, over: InMemoryFs = fs): Bash {
  return new Bash({
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

async function run(request: ShellRequest, ask: AskParent): Promise<ShellReply> {
  present = { head: request.head, ask };
  await tree.take(request.write, request.remove);
  const bash = freshBash(request);
  // The arguments are `$1` and on, as `bash -c script bash "$@"` has them; they never pass through a shell's parser.
  const script =
    request.args.length > 0 ? `set -- ${request.args.map(quote).join(" ")}\n${request.script}` : request.script;
  const { stdout, stderr, exitCode, stdoutKind } = await bash.exec(script, { stdin: request.stdin, rawScript: true });
  const changes = await tree.differences();
  tree.settle(changes);
  // Making a shell takes as long as a short command, so the next one is made while nobody waits.
  setImmediate(() => {
    ahead ??= { setting: settingOf(request), bash: makeBash(request) };
  });
  const bytes = stdoutKind === "bytes" ? Buffer.from(stdout, "latin1").toString("utf8") : stdout;
  return { exitCode, stdout: bytes, stderr, ...changes };
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

serveParent((request, ask) => run(request as ShellRequest, ask), { before: warmUp });
