import { afterAll, beforeAll, expect, test } from "vitest";
import { openSandbox } from "#sandbox/open-sandbox.ts";
import type { OpenSandbox } from "#sandbox/sandbox.ts";
import { type GitRepository, type GitServer, startGitServer } from "../support/git-server.ts";

let server: GitServer;
beforeAll(async () => {
  server = await startGitServer();
});
afterAll(() => server.close());

let made = 0;
export async function repositoryWith(files: Record<string, string>): Promise<GitRepository> {
  const repository = await server.repository(`octo/demo-${made++}`);
  if (Object.keys(files).length > 0) await repository.commit({ files });
  return repository;
}

function open(repository: GitRepository, options: Partial<OpenSandbox> = {}) {
  const source = { tenant: "1/octo/demo", url: repository.url, token: async () => undefined };
  return openSandbox({ source, at: { branch: "main" }, changes: [], ...options });
}

const text = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString("utf8");

test("a branch opens at its tip, with every file to be read", async () => {
  const repository = await repositoryWith({ "README.md": "hello\n", "src/a/b.ts": "export {}\n" });

  const sandbox = await open(repository);

  expect(sandbox.base).toEqual({ branch: "main", commit: (await repository.git("rev-parse", "main")).trim() });
  expect(await sandbox.paths()).toEqual(["README.md", "src/a/b.ts"]);
  expect(text(await sandbox.read("/src/a/b.ts"))).toBe("export {}\n");
});
