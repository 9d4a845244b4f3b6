import { spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import type { RemoteSandbox } from "#executors/remote/remote-executor.ts";
import { createRemoteExecutor } from "#executors/remote/remote-executor.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";

/** An AI SDK sandbox that is a plain folder, in place of a provider's machine. */
async function folderSandbox(): Promise<RemoteSandbox & { root: string }> {
  const root = await mkdtemp(join(tmpdir(), "golem-remote-test-"));
  const start = (command: string, env?: Record<string, string>) =>
    spawn("bash", ["-c", command], {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      env: { ...process.env, ...env },
    });
  const sandbox = {
    root,
    description: "a folder",
    async writeBinaryFile({ path, content }: { path: string; content: Uint8Array }) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), content);
    },
    readBinaryFile: ({ path }: { path: string }) => readFile(join(root, path)),
    deleteFile: ({ path }: { path: string }) =>
      rm(join(root, path)).then(
        () => true,
        () => false,
      ),
    async run({ command }: { command: string }) {
      const child = start(command);
      const [stdout, stderr] = await Promise.all([child.stdout.toArray(), child.stderr.toArray()]);
      return {
        exitCode: child.exitCode ?? 0,
        stdout: Buffer.concat(stdout).toString(),
        stderr: Buffer.concat(stderr).toString(),
      };
    },
    async spawn({ command, env }: { command: string; env?: Record<string, string> }) {
      const child = start(command, env);
      const ended = new Promise<{ exitCode: number }>((resolve) =>
        child.on("close", (code) => resolve({ exitCode: code ?? 137 })),
      );
      return {
        stdout: Readable.toWeb(child.stdout),
        stderr: Readable.toWeb(child.stderr),
        wait: () => ended,
        kill: async () => void process.kill(-(child.pid ?? 0), "SIGKILL"),
      };
    },
    stop: () => rm(root, { recursive: true, force: true }),
  };
  return sandbox as unknown as RemoteSandbox & { root: string };
}

async function opened() {
  const sandbox = await folderSandbox();
  const load = async () => ({ openSandbox: async () => sandbox });
  const executor = createRemoteExecutor({ module: "some-sandbox", load });
  expect(await executor.probe()).toMatchObject({ available: true });
  const session = await executor.open();
  const workspace = memoryWorkspace({ "a.txt": "a\n", "b.txt": "b\n" });
  const run = (script: string, more = {}) =>
    session.exec(workspaceTree(workspace, workspace), {
      command: ["bash", "-c", script],
      timeoutMs: 120_000,
      outputBytes: 1_000,
      ...more,
    });
  return { sandbox, executor, workspace, run };
}

test("a command runs on the tree in a remote sandbox, and only checked changes come back", async () => {
  const { sandbox, executor, run } = await opened();
  await symlink("/etc/passwd", join(sandbox.root, "planted"));
  const chunks: string[] = [];

  const result = await run(
    "cat a.txt; echo c > 'c d.txt'; rm b.txt; mkdir .git; echo x > .git/config; echo x >&2; exit 3",
    {
      onOutput: (stream: string, chunk: string) => chunks.push(stream + chunk),
    },
  );

  expect(result).toMatchObject({ tier: "remote", exitCode: 3, stdout: "a\n", stderr: "x\n" });
  expect(chunks.sort()).toEqual(["stderrx\n", "stdouta\n"]);
  expect(result.changes.written.map(({ path }) => path)).toEqual(["c d.txt"]);
  expect(result.changes.deleted).toEqual(["b.txt"]);
  expect(result.changes.rejected).toEqual([{ path: "planted", reason: "is a link, device, socket or pipe" }]);
  await executor.close();
});

test("git does not take a folder of the remote tree for a bare repository", async () => {
  const { executor, run } = await opened();

  const result = await run("git init -q --bare x && git -C x rev-parse --git-dir; rm -rf x");

  expect(result.stderr).toContain("cannot use bare repository");
  await executor.close();
});

test("changes that a hostile remote sandbox reports are validated like those of a local one", async () => {
  const { sandbox, executor, run } = await opened();
  const names = [
    "../up",
    ".GIT/config",
    "git~1",
    ".gitmodules",
    "/etc/passwd",
    "a\nb",
    "cafe\u0301",
    "caf\u00e9",
    "big",
    "link/in",
  ];
  const asked: string[] = [];
  const lies: Partial<RemoteSandbox> = {
    async run({ command }) {
      const records = command.includes("sha1sum") ? names.map((name) => `${"0".repeat(40)}  ./${name}\0`) : [];
      return { exitCode: 0, stdout: records.join(""), stderr: "" };
    },
    async readBinaryFile({ path }) {
      asked.push(path);
      return new Uint8Array(path === "big" ? 10_000_001 : 1);
    },
  };
  Object.assign(sandbox, lies);

  const { changes } = await run("true");

  expect(asked.sort()).toEqual(["big", "cafe\u0301", "link/in"]);
  expect(changes.written.map(({ path }) => path)).toEqual(["cafe\u0301", "link/in"]);
  expect(changes.rejected).toHaveLength(8);
  expect(changes.deleted.sort()).toEqual(["a.txt", "b.txt"]);
  await executor.close();
});

test("links, pipes, sockets, devices and large files of a remote sandbox are not read", async () => {
  const { sandbox, executor, run } = await opened();
  const read: string[] = [];
  const { readBinaryFile } = sandbox;
  const watched: Pick<RemoteSandbox, "readBinaryFile"> = {
    readBinaryFile(options) {
      read.push(options.path);
      return readBinaryFile(options);
    },
  };
  Object.assign(sandbox, watched);

  const { changes } = await run(
    "rm a.txt; ln -s /etc/passwd a.txt; ln -s /etc folder; mkfifo pipe; truncate -s 1T sparse; truncate -s 11M large; echo x > made; touch -r b.txt stamp; echo B > b.txt; touch -r stamp b.txt; rm stamp",
  );

  expect(read.sort()).toEqual(["b.txt", "made"]);
  expect(changes.written.map(({ path }) => path).sort()).toEqual(["b.txt", "made"]);
  expect(changes.rejected.map(({ path }) => path).sort()).toEqual(["a.txt", "folder", "large", "pipe", "sparse"]);
  await executor.close();
});

test("a remote command with endless output is ended, and the beginning and the end of its output are kept", async () => {
  const { executor, run } = await opened();

  const { stopped, stdout, truncated } = await run("yes 0123456789", { timeoutMs: 120_000 });

  expect(stopped).toContain("too much output");
  expect(truncated).toBe(true);
  expect(stdout.length).toBeLessThan(1_100);
  await executor.close();
});

test("a remote command ends at its deadline and when it is interrupted", async () => {
  const { executor, run } = await opened();
  const stop = new AbortController();

  expect(await run("sleep 60", { timeoutMs: 200 })).toMatchObject({ timedOut: true, exitCode: null });
  const running = run("echo up; sleep 60", { signal: stop.signal, onOutput: () => stop.abort() });

  await expect(running).rejects.toMatchObject({ code: "INTERRUPTED" });
  await executor.close();
});

test("what an interrupted remote command left behind is dropped before the next one", async () => {
  const { executor, run } = await opened();
  const stop = new AbortController();
  const script = "echo half > a.txt; rm b.txt; mkdir b.txt; ln -s / link; echo new > new.txt; echo up; sleep 60";

  const running = run(script, { signal: stop.signal, onOutput: () => stop.abort() });
  await expect(running).rejects.toMatchObject({ code: "INTERRUPTED" });
  const { stdout, changes } = await run("cat a.txt b.txt; ls");

  expect(stdout).toBe("a\nb\na.txt\nb.txt\n");
  expect(changes).toMatchObject({ written: [], deleted: [] });
  await executor.close();
});

test.each([
  ["has no sha1sum with these options", "sha1sum", { exitCode: 1, stdout: "", stderr: "usage" }],
  ["cannot list a folder", "find", { exitCode: 1, stdout: "", stderr: "Permission denied" }],
  ["cuts off long output", "find", { exitCode: 0, stdout: "./a.t", stderr: "" }],
])("files count as deleted only if the remote sandbox has listed all, and not if it %s", async (_, part, answer) => {
  const { executor, run, sandbox } = await opened();
  const own = sandbox.run;
  const failing: Pick<RemoteSandbox, "run"> = {
    run: async (options) => (options.command.includes(part) ? answer : own(options)),
  };
  Object.assign(sandbox, failing);

  const { changes } = await run("true");

  expect(changes.deleted).toEqual([]);
  expect(changes.rejected.length).toBeGreaterThan(0);
  await executor.close();
});

test("a module that cannot be loaded makes the tier unavailable with the reason", async () => {
  const executor = createRemoteExecutor({ module: "no-such-sandbox-module" });

  expect(await executor.probe()).toMatchObject({
    available: false,
    reason: expect.stringContaining("no-such-sandbox-module cannot be used"),
  });
});

test("arguments with any characters reach a remote program unchanged", async () => {
  const { executor, run, sandbox } = await opened();
  await chmod(sandbox.root, 0o700);
  const words = ["$(id)", "it's", "a b", "-n", "new\nline", ""];

  const { stdout } = await run("", {
    command: ["bash", "-c", 'printf "[%s]" "$@"; cat', "bash", ...words],
    stdin: "in 'put'",
  });

  expect(stdout).toBe(`${words.map((word) => `[${word}]`).join("")}in 'put'`);
  await executor.close();
});
