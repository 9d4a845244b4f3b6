import { afterAll, describe, expect, test } from "vitest";
import type { ExecResult } from "#executors/executor.ts";
import { createOsExecutor } from "#executors/os/os-executor.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";

const limits = {
  memoryMb: 1_024,
  diskMb: 96,
  diskFiles: 3_000,
  temporaryMb: 32,
  processes: 64,
  outputBytes: 4_000_000,
};
const executor = createOsExecutor({ limits });
const availability = await executor.probe();
afterAll(() => executor.close());

async function run(...command: string[]): Promise<ExecResult> {
  const workspace = memoryWorkspace({ "README.md": "# Sums\n" });
  const session = await executor.open();
  try {
    return await session.exec(workspaceTree(workspace, workspace), {
      command,
      timeoutMs: 120_000,
      outputBytes: 20_000,
    });
  } finally {
    await session.close();
  }
}

if (!availability.available) test.skip(`the OS sandbox is not tested here: ${availability.reason}`, () => undefined);

describe.skipIf(!availability.available)("limits of all processes of a command in the OS sandbox", () => {
  test("the memory of all processes of a command together is limited", async () => {
    const hold = `python3 -c 'import time; x = bytearray(b"1") * (500 * 1024 * 1024); time.sleep(30)'`;

    const { exitCode, stopped } = await run("bash", "-c", `for i in 1 2 3 4; do ${hold} & done; wait`);

    expect(stopped ?? `exit code ${exitCode}`).toMatch(/memory|exit code 1/);
  });

  test.each(["/tmp", "/dev/shm"])("the space in %s is limited", async (folder) => {
    const fill = `for i in $(seq 20); do head -c 8M /dev/zero > ${folder}/f$i || echo full; done 2>/dev/null`;

    const { stdout } = await run("bash", "-c", `${fill}; du -sm ${folder} | cut -f1`);

    expect(stdout).toContain("full");
    expect(Number(stdout.trim().split("\n").at(-1))).toBeLessThanOrEqual(limits.temporaryMb);
  });

  test("the space in the tree and in its home is limited", async () => {
    const { stopped } = await run("bash", "-c", "while true; do i=$((i+1)); head -c 20M /dev/zero > ~/f$i; done");

    expect(stopped).toMatch(/more than 96 MB/);
  });

  test("the number of files is limited", async () => {
    const create = "i = 0\nwhile True:\n    open(f'/home/golem/{i}', 'w').close(); i += 1";

    const { stopped } = await run("python3", "-c", create);

    expect(stopped).toMatch(/more than 3000 files/);
  });
});
