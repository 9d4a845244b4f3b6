import {
  Bash,
  type BashExecResult,
  type Command,
  defineCommand,
  InMemoryFs,
  type ResolvedCommandContext,
} from "just-bash";
import type { ChildHandler, Parent } from "#executors/serve-parent.ts";
import { gitCommand } from "./git-command.ts";
import { IndexedFs, loadedTree, root } from "./indexed-fs.ts";
import type { FilesRequest, ShellQuestion, ShellReply, ShellRequest } from "./memory-executor.ts";
import { searchCommand } from "./search-command.ts";
import { outputFiles, streamStatements } from "./stream-statements.ts";

type Setting = Pick<ShellRequest, "cwd" | "env" | "timeoutMs" | "outputBytes">;

const fileSystemBytes = 192_000_000;

const fs = new IndexedFs({}, { maxTotalBytes: fileSystemBytes });
fs.mkdirSync(root, { recursive: true });
fs.mkdirSync("/tmp", { recursive: true });
const tree = loadedTree(fs, async (paths) => {
  const question: ShellQuestion = { kind: "contents", paths };
  return (await current?.parent.ask(question)) as (Uint8Array | null)[];
});

/** The current request. Commands of a shell that was created in advance look it up when they run. */
let current:
  | (Pick<ShellRequest, "head" | "outputBytes"> & { parent: Parent; written: number; stop: AbortController })
  | undefined;
let ahead: { setting: string; bash: Bash } | undefined;

const hints: Record<string, string> = {
  npm: "Call run_tests, install_package or format_code.",
  npx: "Call run_tests or format_code.",
  pnpm: "Call run_tests or install_package.",
  yarn: "Call run_tests or install_package.",
  node: "Call run_tests, or run_code with language bash, which has node if the OS sandbox is available.",
  python: "Call run_code with language python.",
  python3: "Call run_code with language python.",
  pip: "Call install_package.",
  pip3: "Call install_package.",
  pytest: "Call run_tests.",
  go: "Call run_tests.",
  cargo: "Call run_tests.",
  make: "Call run_code with language bash.",
  patch: "Call the patch or edit tool.",
  curl: "Call web_fetch.",
  wget: "Call web_fetch.",
  docker: "There are no containers here.",
  sudo: "There is no other user here: run the command itself.",
};

const customCommands = [
  searchCommand("rg", fs),
  searchCommand("grep", fs),
  gitCommand({
    fs,
    tree,
    get head() {
      return current?.head ?? { commit: "", branch: "" };
    },
    ask: async (question) => current?.parent.ask(question),
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

/** Returns a shell in which no command has run. */
function freshBash(request: Setting): Bash {
  const made = ahead?.setting === settingOf(request) ? ahead.bash : makeBash(request);
  ahead = undefined;
  return made;
}

for (const [stream, path] of Object.entries(outputFiles)) {
  fs.divert(path, (content) => {
    if (!current) return;
    current.written += content.length;
    if (current.written > current.outputBytes) current.stop.abort();
    else current.parent.send({ stream, content: stream === "stderr" ? withoutAdvice(content) : content });
  });
}

async function handle(request: FilesRequest | ShellRequest, parent: Parent): Promise<ShellReply | null> {
  await tree.take(request);
  return "script" in request ? run(request, parent) : null;
}

async function run(request: ShellRequest, parent: Parent): Promise<ShellReply> {
  const { head, outputBytes } = request;
  const stop = new AbortController();
  current = { head, outputBytes, parent, written: 0, stop };
  tree.beginCommand();
  const bash = freshBash(request);
  // Arguments become `$1` and so on, as in `bash -c script bash "$@"`. They are quoted and never interpreted.
  const start = request.args.length > 0 ? `set -- ${request.args.map(quote).join(" ")}\n` : "";
  const options = { stdin: request.stdin, rawScript: true, signal: stop.signal };
  const ended = await bash.exec(start + request.script, options);
  const changes = await tree.differences();
  tree.settle(changes);
  // Creating a shell takes as long as a short command, so the next one is created while idle.
  setImmediate(() => {
    ahead ??= { setting: settingOf(request), bash: makeBash(request) };
  });
  return { ...restOf(ended, stop.signal.aborted), ...changes };
}

/** Returns the exit code and the output that was not streamed, such as that of a statement that hit a limit. */
function restOf(ended: BashExecResult, isTooMuch: boolean): Pick<ShellReply, "exitCode" | "stdout" | "stderr"> {
  const { stdout, stderr, exitCode, stdoutKind } = ended;
  if (isTooMuch) return { exitCode: 126, stdout: "", stderr: "bash: the output is too long\n" };
  const bytes = stdoutKind === "bytes" ? Buffer.from(stdout, "latin1").toString("utf8") : stdout;
  return { exitCode, stdout: bytes, stderr: stderr.replaceAll(advice, "") };
}

/** The advice of just-bash to the program that embeds it, at the end of a message about a limit. */
const advice = /, increase executionLimits\.\w+/g;

function withoutAdvice(content: Uint8Array): Uint8Array {
  const text = Buffer.from(content);
  return text.includes("executionLimits") ? Buffer.from(text.toString("utf8").replaceAll(advice, "")) : content;
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** Runs a first command, since the first one in a process takes 20 times as long as the second. */
async function warmUp(): Promise<void> {
  const nowhere = new InMemoryFs();
  nowhere.mkdirSync(root, { recursive: true });
  const setting: Setting = { cwd: "", env: {}, timeoutMs: 1_000, outputBytes: 1_000 };
  await makeBash(setting, nowhere).exec("echo warm | wc -l", { rawScript: true });
}

/**
 * `rm` and `find` that refuse to delete the whole repository or a folder above it, however it is written: `/`, `/*`,
 * `/workspace/..`, `$X/`. Their arguments have been expanded by then. Everything else is passed to the shell's own
 * commands.
 */
function guardedDeletions(): Command[] {
  return [
    guarded("rm", operands),
    guarded("mv", (args) => operands(args).slice(0, -1)),
    guarded("find", (args) => (deletesUnnamed(args) ? startingPoints(args) : [])),
  ];
}

function guarded(name: string, targets: (args: readonly string[]) => readonly string[]): Command {
  return defineCommand(name, async (args, context) => {
    const refused = targets(args).find((path) => holdsRepository(path, context));
    if (refused === undefined) {
      return (await context.origCommand?.(args)) ?? { stdout: "", stderr: `${name}: not found\n`, exitCode: 127 };
    }
    return { stdout: "", stderr: `${name}: refused: '${refused}' holds the whole repository\n`, exitCode: 1 };
  });
}

function holdsRepository(path: string, { fs, cwd }: ResolvedCommandContext): boolean {
  const resolved = fs.resolvePath(cwd, path);
  return resolved === root || resolved === "/" || root.startsWith(`${resolved}/`);
}

function operands(args: readonly string[]): string[] {
  return args.filter((arg) => !/^-./.test(arg));
}

/** True for a search that deletes without selecting files by name or property. */
function deletesUnnamed(args: readonly string[]): boolean {
  const deletes = args.some((arg) => arg === "-delete" || /(^|\/)(rm|unlink|rmdir|shred)$/.test(arg));
  return deletes && !args.some((arg) => /^-(i?name|i?path|i?regex|empty|size|[acm]time|[acm]min|newer)$/.test(arg));
}

function startingPoints(args: readonly string[]): readonly string[] {
  const end = args.findIndex((arg) => /^[-(!]/.test(arg));
  const paths = end === -1 ? args : args.slice(0, end);
  return paths.length > 0 ? paths : ["."];
}

/** Common programs that this shell cannot provide. Each prints which tool to call instead. */
function unavailableCommands(): Command[] {
  return Object.entries(hints).map(([name, hint]) =>
    defineCommand(name, async () => ({
      stdout: "",
      stderr: `${name}: not in the in-memory shell. ${hint}\n`,
      exitCode: 127,
    })),
  );
}

const handler: ChildHandler = { handle: (request, parent) => handle(request as ShellRequest, parent), warmUp };
export default handler;
