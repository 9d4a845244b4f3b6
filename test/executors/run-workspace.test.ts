import { afterAll, describe, expect, test } from "vitest";
import { createExecutors } from "#executors/create-executors.ts";
import type { Tier } from "#executors/executor.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { takeOver } from "#toolsets/commands/take-over.ts";
import { workspaceTree } from "#toolsets/commands/workspace-tree.ts";

const executors = createExecutors();
afterAll(() => executors.close());
const standings = await executors.describe();
const base = { base: { commit: "c".repeat(40), branch: "main" }, log: async () => [] };

describe.each<Tier>(["memory", "os"])("the workspace of a run and the %s tier", (tier) => {
  test.skipIf(!standings.find((standing) => standing.tier === tier)?.stands)(
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
          timeoutMs: 5_000,
          outputBytes: 5_000,
        });
        return { ...result, taken: await takeOver(result.changes, workspace, { isAgreed: () => false }) };
      };

      const first = await run(
        "mkdir -p scratch out; echo note > scratch/note; echo x > src/a.ts; echo y > docs/b.md; echo z > out/z; printf '#!/bin/sh\\necho ran\\n' > run.sh; chmod +x run.sh",
      );
      await workspace.write("scratch/note", "changed by a tool\n");
      await workspace.remove("src/a.ts");
      const second = await run("cat scratch/note docs/b.md; ls src; ./run.sh");

      expect(first.taken.written.sort()).toEqual(["run.sh", "scratch/note", "src/a.ts"]);
      expect(first.taken.rejected.map(({ path }) => path)).toEqual(["docs/b.md"]);
      expect((await workspace.stat("run.sh")).executable).toBe(true);
      expect(second.stdout).toContain("changed by a tool\nb\n");
      expect(second.stdout).toContain("ran\n");
      expect(second.stdout).not.toContain("a.ts");
      expect(second.taken).toEqual({ written: [], deleted: [], rejected: [] });
      expect(await workspace.exists("out/z")).toBe(false);
    },
  );
});
