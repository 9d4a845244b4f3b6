import { spawn } from "node:child_process";
import type { IncomingMessage } from "node:http";
import { basename, dirname } from "node:path";
import { gitEnvironment } from "./git-repository.ts";

export interface GitResponse {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

/**
 * Lets `git http-backend` answer a request for one bare repository. `service` is the part of the path after the repository;
 * only a request with a `user` can push.
 */
export function runGitBackend(
  request: IncomingMessage,
  { directory, service, url, user }: { directory: string; service: string; url: URL; user: string | undefined },
): Promise<GitResponse> {
  const header = (name: string) => String(request.headers[name] ?? "");
  const backend = spawn("git", ["http-backend"], {
    env: {
      ...gitEnvironment(),
      GIT_PROJECT_ROOT: dirname(directory),
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: `/${basename(directory)}/${service}`,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? "GET",
      CONTENT_TYPE: header("content-type"),
      // http-backend unpacks gzip itself, given this header.
      HTTP_CONTENT_ENCODING: header("content-encoding"),
      GIT_PROTOCOL: header("git-protocol"),
      REMOTE_ADDR: "127.0.0.1",
      ...(header("content-length") && { CONTENT_LENGTH: header("content-length") }),
      ...(user && { REMOTE_USER: user }),
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    backend.on("error", reject);
    backend.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    backend.on("close", () => resolve(parseCgi(Buffer.concat(chunks))));
    // Git may answer and close before it has read the whole request.
    backend.stdin.on("error", () => undefined);
    request.on("error", () => backend.kill());
    request.pipe(backend.stdin);
  });
}

function parseCgi(output: Buffer): GitResponse {
  const end = output.indexOf("\r\n\r\n");
  if (end < 0) return { status: 500, headers: {}, body: Buffer.from("git http-backend did not answer\n") };

  const lines = output.subarray(0, end).toString("latin1").split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    }),
  );
  const { Status: status = "200 OK", ...rest } = headers;
  return { status: Number.parseInt(status, 10), headers: rest, body: output.subarray(end + 4) };
}
