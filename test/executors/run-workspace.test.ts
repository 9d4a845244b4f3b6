import { afterAll, describe, expect, test } from "vitest";
import { createExecutors } from "#executors/create-executors.ts";
import type { Tier } from "#executors/executor.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { applyCommandChanges, workspaceTree } from "#toolsets/run-command.ts";

const executors = createExecutors();
afterAll(() => executors.close());
const availabilities = await executors.availabilities();
const base = { base: { commit: "c".repeat(40), branch: "main" }, log: async () => ({ commits: [], isComplete: true }) };

describe.each<Tier>(["memory", "os"])("the workspace of a run and the %s tier", (tier) => {
  test.skipIf(!availabilities.find(({ tier: name }) => name === tier)?.available)(
    "stay the same tree, zones and scratch included",
    async () => {
      const workspace = createMemoryWorkspace(
        { "src/a.ts": "a\n", "docs/b.md": "b\n", ".gitignore": "out/\n" },
        {
          zones: [
            { name: "scratch", mode: "rw", keep: "run" },
            { name: "docs", mode: "ro" },
          ],
        },
      );
      const session = await executors.openSession(tier, "run");
      const run = async (script: string) => {
        const result = await session.exec(workspaceTree(workspace, base), {
          command: ["bash", "-c", script],
          timeoutMs: 120_000,
          outputBytes: 5_000,
        });
        return { ...result, taken: await applyCommandChanges(result.changes, workspace, { isApproved: () => false }) };
      };

      await workspace.write("scratch/plan", "first\n");
      const first = await run(
        "cat scratch/plan; mkdir -p scratch out; echo note > scratch/note; echo x > src/a.ts; echo y > docs/b.md; echo z > out/z; printf '#!/bin/sh\\necho ran\\n' > run.sh; chmod +x run.sh",
      );
      await workspace.write("scratch/note", "changed by a tool\n");
      await workspace.write("scratch/plan", "second\n");
      await workspace.remove("src/a.ts");
      const second = await run("cat scratch/note docs/b.md; ls src; ./run.sh; cat scratch/plan");

      expect(first.stdout).toBe("first\n");
      expect(first.taken.written.sort()).toEqual(["run.sh", "scratch/note", "src/a.ts"]);
      expect(first.taken.rejected.map(({ path }) => path)).toEqual(["docs/b.md"]);
      expect((await workspace.stat("run.sh")).executable).toBe(true);
      expect(second.stdout).toContain("changed by a tool\nb\n");
      expect(second.stdout).toContain("ran\nsecond\n");
      expect(second.stdout).not.toContain("a.ts");
      expect(second.taken).toEqual({ written: [], deleted: [], rejected: [] });
      expect(await workspace.exists("out/z")).toBe(false);
    },
  );

  test.skipIf(!availabilities.find(({ tier: name }) => name === tier)?.available)(
    "meet again after whatever was done between two commands, and keep out of other runs' way",
    async () => {
      const files = {
        "kept.txt": "base\n",
        "gone.txt": "base\n",
        "tool.sh": "#!/bin/sh\necho ran\n",
        "a/b.txt": "base\n",
      };
      const workspace = createMemoryWorkspace(files);
      const session = await executors.openSession(tier, "one");
      const other = await executors.openSession(tier, "other");
      const untouched = workspaceTree(createMemoryWorkspace(files), base);
      const run = (script: string, tree = workspaceTree(workspace, base), where = session) =>
        where.exec(tree, { command: ["bash", "-c", script], timeoutMs: 120_000, outputBytes: 5_000 });
      await Promise.all([run("true"), run("true", untouched, other)]);

      await workspace.write("kept.txt", "tool\n");
      await workspace.remove("gone.txt");
      await workspace.write("tool.sh", files["tool.sh"], { executable: true });
      const changed = await run("cat kept.txt; ls gone.txt; ./tool.sh; echo guest > a/b.txt");
      await workspace.write("kept.txt", "base\n");
      await workspace.write("gone.txt", "base\n");
      await workspace.write("tool.sh", files["tool.sh"], { executable: false });
      // The guest's changes were not accepted, so they are gone the next time.
      const reverted = await run("cat kept.txt gone.txt a/b.txt; [ -x tool.sh ] || echo no program");
      const apart = await run("cat kept.txt gone.txt a/b.txt; [ -x tool.sh ] || echo no program", untouched, other);

      expect(changed.stdout).toBe("tool\nran\n");
      expect(changed.changes.written.map(({ path }) => path)).toEqual(["a/b.txt"]);
      expect(reverted.stdout).toBe("base\nbase\nbase\nno program\n");
      expect(apart.stdout).toBe(reverted.stdout);
      for (const { changes } of [reverted, apart])
        expect(changes).toMatchObject({ written: [], deleted: [], rejected: [] });
    },
  );
});
