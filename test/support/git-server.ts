import { once } from "node:events";
import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseCgi } from "#playground/github/git/answer-git.ts";
import { branches } from "#playground/github/git/git-repository.ts";
import { executeGit } from "#playground/github/git/run-git.ts";

/** An entry of a commit: a file, an executable, a symbolic link or a submodule. */
export type GitFile =
  | string
  | Uint8Array
  | { content: string | Uint8Array; executable?: boolean }
  | { link: string }
  | { submodule: string };

export interface GitServerOptions {
  /** Requires this token as the basic authentication password, as GitHub does. Default: anyone can read and write. */
  token?: string;
  /** Returns true if it has answered the request itself. */
  intercept?: ((request: IncomingMessage, response: ServerResponse, body: Buffer) => boolean) | undefined;
}

export interface CommitOptions {
  branch?: string;
  message?: string;
  /** Contents by path; null deletes the file. */
  files: Record<string, GitFile | null>;
  at?: Date;
  /** Starts the branch again without a parent commit. */
  orphan?: boolean;
  /** The parent commit. Default: the tip of the branch. */
  parent?: string;
}

/** A real git server: bare repositories behind `git http-backend`. */
export interface GitServer {
  /** The base URL of the repositories, without a trailing slash. */
  url: string;
  /** The folder of the repositories. */
  root: string;
  /** Every request so far, such as `POST /o/r.git/git-upload-pack`. */
  requests: string[];
  options: GitServerOptions;
  /** Creates an empty repository; `name` is `owner/repo`. */
  repository(name?: string): Promise<GitRepository>;
  close(): Promise<void>;
}

export interface GitRepository {
  /** The smart HTTP address. */
  url: string;
  path: string;
  /** Runs git in the bare repository and returns its output. */
  git(...args: string[]): Promise<string>;
  /** Like `git`, with text for standard input. */
  feed(input: string | Buffer, ...args: string[]): Promise<string>;
  /** Commits to a branch, by default `main`, once or several times, and returns the last commit. */
  commit(...history: CommitOptions[]): Promise<string>;
}

export async function startGitServer(options: GitServerOptions = {}): Promise<GitServer> {
  const root = await mkdtemp(join(tmpdir(), "golem-git-"));
  const requests: string[] = [];
  const state = { url: "", root, requests, options };
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    void serve(root, state.options, request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(state, {
    url,
    repository: (name = "octo/demo") => createRepository({ root, url }, name),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
      await rm(root, { recursive: true, force: true });
    },
  });
}

/** Creates an empty repository of a server; `name` is `owner/repo`. */
export async function createRepository(
  { root, url }: Pick<GitServer, "root" | "url">,
  name: string,
): Promise<GitRepository> {
  const path = join(root, `${name}.git`);
  await git(root, ["init", "--quiet", "--bare", "--initial-branch=main", path]);
  const settings =
    "[http]\n\treceivepack = true\n[uploadpack]\n\tallowFilter = true\n[receive]\n\tfsckObjects = true\n";
  await appendFile(join(path, "config"), settings);
  return {
    url: `${url}/${name}.git`,
    path,
    git: (...args) => git(path, args),
    feed: (input, ...args) => git(path, args, Buffer.from(input as string)),
    commit: (...history) => commit(path, history),
  };
}

async function commit(path: string, history: readonly CommitOptions[]): Promise<string> {
  const heads = await branches(path);
  const commands = history.flatMap((options) => {
    const commands = describeCommit(options, heads);
    // From here on, git continues this branch by itself.
    heads.delete(refOf(options));
    return commands;
  });
  const input = Buffer.concat([...commands, "get-mark :1\n"].map((part) => Buffer.from(part as string)));
  return (await git(path, ["fast-import", "--quiet", "--force"], input)).trim();
}

const refOf = ({ branch = "main" }: CommitOptions) => `refs/heads/${branch}`;

/** Describes a commit on the head of its branch for `git fast-import`. */
function describeCommit(options: CommitOptions, heads: ReadonlyMap<string, string>): (string | Uint8Array)[] {
  const { message = "A commit", files, at = new Date(1_700_000_000_000), orphan, parent } = options;
  const ref = refOf(options);
  const from = orphan ? undefined : (parent ?? heads.get(ref));
  const who = `Ada <ada@example.com> ${Math.floor(at.getTime() / 1_000)} +0000`;
  return [
    ...(orphan ? [`reset ${ref}\n`] : []),
    `commit ${ref}\nmark :1\ncommitter ${who}\ndata ${Buffer.byteLength(message)}\n${message}\n`,
    ...(from ? [`from ${from}\n`] : []),
    ...Object.entries(files).flatMap(([name, file]) => describeFile(name, file)),
    "\n",
  ];
}

function describeFile(name: string, file: GitFile | null): (string | Uint8Array)[] {
  const path = JSON.stringify(name);
  if (file === null) return [`D ${path}\n`];
  if (typeof file === "object" && "submodule" in file) return [`M 160000 ${file.submodule} ${path}\n`];

  const { mode, content } = modeAndContent(file);
  const bytes = Buffer.from(content as string);
  return [`M ${mode} inline ${path}\ndata ${bytes.length}\n`, bytes, "\n"];
}

function modeAndContent(file: Exclude<GitFile, { submodule: string }>): { mode: string; content: string | Uint8Array } {
  if (typeof file === "string" || file instanceof Uint8Array) return { mode: "100644", content: file };
  if ("link" in file) return { mode: "120000", content: file.link };
  return { mode: file.executable ? "100755" : "100644", content: file.content };
}

async function git(cwd: string, args: string[], input?: Buffer): Promise<string> {
  const { code, output, messages } = await executeGit({ args, env: environmentIn(cwd), cwd, ...(input && { input }) });
  if (code !== 0) throw new Error(`git ${args.join(" ")} exited with code ${code}: ${messages}`);
  return output.toString();
}

function environmentIn(home: string): Record<string, string> {
  return { PATH: process.env.PATH ?? "", HOME: home, GIT_CONFIG_NOSYSTEM: "1" };
}

async function serve(root: string, options: GitServerOptions, request: IncomingMessage, response: ServerResponse) {
  if (options.token !== undefined && !isAuthorized(options.token, request)) {
    response.writeHead(401, { "www-authenticate": 'Basic realm="GitHub"', "content-type": "text/plain" });
    response.end("Invalid username or token.\n");
    return;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  if (options.intercept?.(request, response, Buffer.concat(chunks))) return;

  const url = new URL(request.url ?? "/", "http://localhost");
  const { output } = await executeGit({
    args: ["http-backend"],
    env: {
      ...environmentIn(root),
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: decodeURIComponent(url.pathname),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? "GET",
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      CONTENT_LENGTH: request.headers["content-length"] ?? "",
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      REMOTE_USER: "x-access-token",
      REMOTE_ADDR: "127.0.0.1",
    },
    input: Buffer.concat(chunks),
  });
  const { status, headers, body } = parseCgi(output);
  response.writeHead(status, headers).end(body);
}

function isAuthorized(token: string, request: IncomingMessage): boolean {
  const given = Buffer.from((request.headers.authorization ?? "").replace(/^Basic /, ""), "base64").toString("utf8");
  return given.slice(given.indexOf(":") + 1) === token;
}
