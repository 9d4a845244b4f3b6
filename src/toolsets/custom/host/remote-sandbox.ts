import type { Entry, Workspace } from "#domain/workspace.ts";
import { parsePath } from "#sandbox/paths.ts";
import type { SandboxCall } from "#toolsets/custom/messages.ts";

/** The run's sandbox for a tool in this process: every call is made in the parent process, by the run's rules. */
export function remoteSandbox(ask: (request: SandboxCall) => Promise<unknown>): Workspace {
  const entry = (value: unknown): Entry => ({
    ...(value as Entry),
    modified: new Date((value as { modified: string }).modified),
  });
  const bytes = (value: unknown) => new Uint8Array(Buffer.from((value as { base64: string }).base64, "base64"));

  return {
    resolve: parsePath,
    exists: async (path) => (await ask({ method: "exists", path })) === true,
    stat: async (path) => entry(await ask({ method: "stat", path })),
    read: async (path) => bytes(await ask({ method: "read", path })),
    async write(path, content, { executable } = {}) {
      const sent = typeof content === "string" ? content : { base64: Buffer.from(content).toString("base64") };
      await ask({ method: "write", path, content: sent, ...(executable !== undefined && { executable }) });
    },
    remove: async (path, { recursive = false } = {}) => (await ask({ method: "remove", path, recursive })) as string[],
    async move(from, to, { overwrite = false } = {}) {
      await ask({ method: "move", from, to, overwrite });
    },
    list: async (path, { recursive = false } = {}) =>
      ((await ask({ method: "list", path, recursive })) as unknown[]).map(entry),
    paths: async () => (await ask({ method: "paths" })) as string[],
    changes: async () => (await ask({ method: "changes" })) as Awaited<ReturnType<Workspace["changes"]>>,
    async readBase(path) {
      const value = await ask({ method: "readBase", path });
      return value === undefined || value === null ? undefined : bytes(value);
    },
    // Synchronous in the parent process; here it is a promise that a tool has to await.
    ruleFor: ((path: string) => ask({ method: "ruleFor", path })) as unknown as Workspace["ruleFor"],
  };
}
