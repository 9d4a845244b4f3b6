import { openSandbox } from "#sandbox/open-sandbox.ts";
import { fileChange } from "#sandbox/preview-files.ts";
import type { GitSandbox, OpenSandbox, PushRequest } from "#sandbox/sandbox.ts";
import { type GitFile, type GitRepository, type GitServerOptions, startGitServer } from "./git-server.ts";

export type SandboxWorld = Awaited<ReturnType<typeof startSandboxWorld>>;

/** Starts a git server for repositories and the sandboxes over them. */
export async function startSandboxWorld(options?: GitServerOptions) {
  const server = await startGitServer(options);
  let made = 0;
  return {
    server,
    /** Creates a separate repository with these files on main. */
    repositoryWith: async (files: Record<string, GitFile>): Promise<GitRepository> => {
      const repository = await server.repository(`octo/demo-${made++}`);
      if (Object.keys(files).length > 0) await repository.commit({ files });
      return repository;
    },
    /** Opens a sandbox and waits for its contents. */
    open: async (repository: GitRepository, { token, ...rest }: Partial<OpenSandbox> & { token?: string } = {}) => {
      const sandbox = await openSandbox({
        source: { tenant: repository.url, url: repository.url, token: async () => token },
        at: { branch: "main" },
        changes: [],
        ...rest,
      });
      await sandbox.stat("");
      return sandbox;
    },
    close: () => server.close(),
  };
}

/** Pushes all outgoing changes. */
export async function pushAll(sandbox: GitSandbox, branch: string, more: Partial<PushRequest> = {}): Promise<string> {
  const author = { name: "Golem", email: "golem@example.com" };
  const changes = (await sandbox.outgoing()).map(fileChange);
  return sandbox.push({ branch, changes, message: "Work", author, at: new Date(1_750_000_000_000), ...more });
}

export function textOf(bytes: Uint8Array | undefined): string | undefined {
  return bytes && Buffer.from(bytes).toString("utf8");
}
