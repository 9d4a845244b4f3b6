import { z } from "zod";
import type { NamedTool } from "#domain/tool.ts";
import type { Checkout } from "#sandbox/checkout/open-checkout.ts";
import { runGit } from "#sandbox/checkout/run-git.ts";

/** What the person has changed since the last commit: what a reviewer is often asked about before there is one. */
export function createGitUncommittedTool({ root, head }: Pick<Checkout, "root" | "head">): NamedTool {
  return {
    name: "git_uncommitted",
    description:
      "Show what the person had changed and not committed, as a unified diff, and which files are new. It is part of the files as you see them, and not of what git_diff shows.",
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
      return parts.join("\n\n") || "Everything is committed.";
    },
  };
}
