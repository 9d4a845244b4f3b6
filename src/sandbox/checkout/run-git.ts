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
const settings = [
  "core.quotePath=false",
  // A clone may bring a folder that looks like a bare repository, whose settings name programs.
  "safe.bareRepository=explicit",
  // So may the settings of a checkout that came as an archive.
  ...["core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false"],
];
const globalArgs = [
  ...["--no-optional-locks", "--literal-pathspecs"],
  ...settings.flatMap((setting) => ["-c", setting]),
];

const emptyVariable = "GOLEM_FORGE_EMPTY";
const ownVariables = { LC_ALL: "C", GIT_TERMINAL_PROMPT: "0", GIT_ALLOW_PROTOCOL: "", [emptyVariable]: "" };

/**
 * Runs the installed git and resolves to its standard output. Rejects with a GitError with the first line of its errors. It
 * connects to nothing, unless `env` allows protocols: git fetches what a partial clone lacks with programs of its settings.
 */
export function runGit(args: readonly string[], { cwd, stdin, env, signal }: GitCommandOptions): Promise<Buffer> {
  const inherited = Object.entries(process.env).filter(([name]) => !redirectingVariables.test(name));
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const child = spawn("git", [...globalArgs, ...args], {
    cwd,
    env: { ...Object.fromEntries(inherited), ...ownVariables, ...env },
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
    const command = `git ${args.find((arg, at) => !arg.startsWith("-") && args[at - 1] !== "-c")}`;
    if (/^fatal: transport '.*' not allowed$/.test(message))
      return reject(
        new GitError(
          `${command} needs an object that this partial clone lacks. Run it yourself once, and git fetches the object.`,
        ),
      );
    reject(new GitError(`${command}: ${message.replace(/^(fatal|error): /, "") || `exit code ${code}`}`));
  });
  return promise;
}

/**
 * Returns options that turn off the filters of a checkout's own settings, with which git would start a program to read a
 * changed file. The person's filters remain.
 */
export async function withoutOwnFilters(root: string): Promise<string[]> {
  const options = [
    "--show-scope",
    "--name-only",
    "-z",
    "--get-regexp",
    String.raw`^filter\..*\.(clean|process|required)$`,
  ];
  const listed = await runGit(["config", ...options], { cwd: root }).catch(() => Buffer.alloc(0));
  const pairs = listed.toString("utf8").matchAll(/([^\0]*)\0([^\0]*)\0/g);
  // A name may contain an equals sign, which `-c` would take for its end.
  return [...pairs].flatMap(([, scope = "", name]) =>
    ["local", "worktree"].includes(scope) ? [`--config-env=${name}=${emptyVariable}`] : [],
  );
}
