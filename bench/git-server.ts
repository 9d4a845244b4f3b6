import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { createRepository, type GitRepository } from "../test/support/git-server.ts";

/** A git server in a separate process, so that it does not share the event loop of the measured code. */
export interface SeparateGitServer {
  repository(name: string): Promise<GitRepository>;
  close(): Promise<void>;
}

export async function startSeparateGitServer(): Promise<SeparateGitServer> {
  const script = fileURLToPath(new URL("./children/git-server.ts", import.meta.url));
  const child = spawn(process.execPath, [script], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  const server = JSON.parse(line);
  return {
    repository: (name) => createRepository(server, name),
    close: async () => {
      child.stdin.end();
      await once(child, "exit");
    },
  };
}
