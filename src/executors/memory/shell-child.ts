import { Bash, InMemoryFs } from "just-bash";
import { type AskParent, serveParent } from "#executors/serve-parent.ts";
import { directFiles } from "./direct-files.ts";
import { elsewhereCommands } from "./elsewhere-command.ts";
import { gitCommand } from "./git-command.ts";
import { loadedTree, root } from "./loaded-tree.ts";
import { searchCommand } from "./search-command.ts";
import type { ShellReply, ShellRequest } from "./shell-request.ts";

const fileSystemBytes = 192_000_000;

const fs = new InMemoryFs({}, { maxTotalBytes: fileSystemBytes });
fs.mkdirSync(root, { recursive: true });
fs.mkdirSync("/tmp", { recursive: true });
const files = directFiles(fs);
const tree = loadedTree(fs);

async function run(request: ShellRequest, ask: AskParent): Promise<ShellReply> {
  await tree.take(request.write, request.remove);
  const bash = new Bash({
    fs,
    cwd: request.cwd === "" ? root : `${root}/${request.cwd}`,
    env: { HOME: "/tmp", USER: "golem", LANG: "C.UTF-8", ...request.env },
    customCommands: [
      searchCommand("rg", files),
      searchCommand("grep", files),
      gitCommand({ fs, tree, head: request.head, ask }),
      ...elsewhereCommands(),
    ],
    executionLimitProfile: "hardened",
    executionLimits: {
      maxExecutionTimeMs: request.timeoutMs,
      maxOutputSize: request.outputBytes,
      maxFileSystemBytes: fileSystemBytes,
    },
  });
  // The arguments are `$1` and on, as `bash -c script bash "$@"` has them; they never pass through a shell's parser.
  const script =
    request.args.length > 0 ? `set -- ${request.args.map(quote).join(" ")}\n${request.script}` : request.script;
  const { stdout, stderr, exitCode, stdoutKind } = await bash.exec(script, { stdin: request.stdin, rawScript: true });
  const changes = await tree.differences();
  tree.settle(changes);
  const bytes = stdoutKind === "bytes" ? Buffer.from(stdout, "latin1").toString("utf8") : stdout;
  return { exitCode, stdout: bytes, stderr, ...changes };
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

serveParent((request, ask) => run(request as ShellRequest, ask));
