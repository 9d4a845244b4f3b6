import { spawn } from "node:child_process";
import { UserError } from "#domain/errors.ts";

export interface GitRequest {
  /** The folder git works in. */
  cwd: string;
  stdin?: string | Uint8Array;
  env?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** A git that wrote its complaint down. */
export class GitError extends UserError {
  override readonly name = "GitError";
}

// Where golem is started from a hook or an alias, these name another repository than the folder does.
const redirectingVariables =
  /^GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|PREFIX|NAMESPACE|INTERNAL_SUPER_PREFIX|.*PATHSPECS)$/;
const globalArgs = [
  "--no-optional-locks",
  "--literal-pathspecs",
  "-c",
  "core.fsmonitor=false",
  "-c",
  "core.quotePath=false",
];

/** Runs the git of this machine, and resolves to what it wrote. Rejects with a GitError that says what it complained of. */
export function runGit(args: readonly string[], { cwd, stdin, env, signal }: GitRequest): Promise<Buffer> {
  const inherited = Object.entries(process.env).filter(([name]) => !redirectingVariables.test(name));
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const child = spawn("git", [...globalArgs, ...args], {
    cwd,
    env: { ...Object.fromEntries(inherited), LC_ALL: "C", GIT_TERMINAL_PROMPT: "0", ...env },
    ...(signal && { signal }),
  });
  const output: Buffer[] = [];
  const complaint: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => output.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => complaint.push(chunk));
  child.stdin.on("error", () => {});
  child.stdin.end(stdin);
  child.on("error", (error: NodeJS.ErrnoException) => {
    reject(error.code === "ENOENT" ? new UserError("git was not found on this machine: install it first.") : error);
  });
  child.on("close", (code) => {
    if (code === 0) return resolve(Buffer.concat(output));
    const said = Buffer.concat(complaint).toString("utf8").trim().split("\n")[0] ?? "";
    reject(new GitError(`git ${args[0]}: ${said.replace(/^(fatal|error): /, "") || `it ended with ${code}`}`));
  });
  return promise;
}
