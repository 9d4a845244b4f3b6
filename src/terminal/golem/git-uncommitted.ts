import { z } from "zod";
import type { NamedTool } from "#domain/tool.ts";
import type { Checkout } from "#sandbox/checkout/open-checkout.ts";
import { runGit } from "#sandbox/checkout/run-git.ts";

/** Shows the person's own uncommitted changes, which reviewers are often asked about. */
export function createGitUncommittedTool({ root, head }: Pick<Checkout, "root" | "head">): NamedTool {
  return {
    name: "git_uncommitted",
    description:
      "Show the person's uncommitted changes as a unified diff, and their new files. They are part of the files you see, but not of what git_diff shows.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async (_, { abortSignal: signal }) => {
      const at = { cwd: root, signal };
      const [diff, added] = await Promise.all([
        head ? runGit(["diff", "--no-ext-diff", "--no-textconv", "--no-color", head], at) : Buffer.alloc(0),
        runGit(["ls-files", "-z", "--others", "--exclude-standard"], at),
      ]);
      const files = added.toString("utf8").split("\0").filter(Boolean);
      const parts = [
        ...(files.length > 0 ? [`New files:\n${files.join("\n")}`] : []),
        ...(diff.length > 0 ? [diff.toString("utf8")] : []),
      ];
      return parts.join("\n\n") || "There are no uncommitted changes.";
    },
  };
}
