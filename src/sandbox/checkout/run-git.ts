import { spawn } from "node:child_process";
import { UserError } from "#domain/errors.ts";

export interface GitCommandOptions {
  cwd: string;
  stdin?: string | Uint8Array;
  env?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

export class GitError extends UserError {
  override readonly name = "GitError";
}

/** True for the error of a command that was started in a folder without a repository. */
export function isOutsideRepository({ message }: GitError): boolean {
  return message.includes("not a git repository");
}

// Git sets these in hooks and aliases, where they would make our commands use another repository.
const redirectingVariables =
  /^GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|PREFIX|NAMESPACE|INTERNAL_SUPER_PREFIX|.*PATHSPECS)$/;
const globalArgs = [
  "--no-optional-locks",
  "--literal-pathspecs",
  "-c",
  "core.fsmonitor=false",
  "-c",
  "core.quotePath=false",
  // A clone may bring a folder that looks like a bare repository, whose settings name programs.
  "-c",
  "safe.bareRepository=explicit",
];

/** Runs the installed git and resolves to its standard output. Rejects with a GitError with the first line of its errors. */
export function runGit(args: readonly string[], { cwd, stdin, env, signal }: GitCommandOptions): Promise<Buffer> {
  const inherited = Object.entries(process.env).filter(([name]) => !redirectingVariables.test(name));
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const child = spawn("git", [...globalArgs, ...args], {
    cwd,
    env: { ...Object.fromEntries(inherited), LC_ALL: "C", GIT_TERMINAL_PROMPT: "0", ...env },
    ...(signal && { signal }),
  });
  const output: Buffer[] = [];
  const errors: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => output.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => errors.push(chunk));
  child.stdin.on("error", () => {});
  child.stdin.end(stdin);
  child.on("error", (error: NodeJS.ErrnoException) => {
    reject(error.code === "ENOENT" ? new UserError("git is not installed. Install it and try again.") : error);
  });
  child.on("close", (code) => {
    if (code === 0) return resolve(Buffer.concat(output));
    const message = Buffer.concat(errors).toString("utf8").trim().split("\n")[0] ?? "";
    if (/^(author|committer) identity unknown|empty ident name/i.test(message))
      return reject(new UserError("git does not know your name. Set user.name and user.email with git config."));
    reject(new GitError(`git ${args[0]}: ${message.replace(/^(fatal|error): /, "") || `exit code ${code}`}`));
  });
  return promise;
}
