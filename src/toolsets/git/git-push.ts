import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { previewPush, pushChanges } from "#toolsets/pull-request/push-changes.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  message: z.string().min(1).max(5_000).optional().describe("Commit message"),
  branch: z.string().optional().describe("Must be the run's own branch, which is the default"),
  remote: z.literal("origin").default("origin").describe("The remote; only origin"),
  force: z.boolean().default(false).describe("Must be false: history is never rewritten"),
});
type Input = z.infer<typeof input>;

/** Pushes the run's changes to its own branch. People run it; the model is never offered it. */
export function createGitPushTool(services: ToolServices): NamedTool<Input, ToolResult> {
  const { branch: own, spec } = services;
  const subjectOf = (message: string | undefined) =>
    message ?? `Changes by ${spec.worker.name} for #${spec.origin.thread}`;
  const assertAllowed = ({ branch = own, force }: Input) => {
    if (branch !== own) {
      throw new ToolError(`This run can only push to its own branch, ${own}.`, {
        code: "PERMISSION_DENIED",
        suggestion: `Omit branch, and merge ${own} through a pull request.`,
      });
    }
    if (force) {
      throw new ToolError("Force pushes are not supported.", {
        code: "PERMISSION_DENIED",
        suggestion: "Omit force; the push adds a new commit.",
      });
    }
  };
  return {
    name: "git_push",
    description: "Commit the run's changes and push them to its own branch.",
    inputSchema: input,
    needsApproval: true,
    approvalReason: () => `Push the changes of this run to ${own}.`,
    preview: (args, { abortSignal }) => {
      assertAllowed(args);
      const message = services.sanitize(subjectOf(args.message));
      return previewPush(services, { "Commit message": message }, abortSignal);
    },
    manualExecution: { mode: "manual", label: "Push to Remote", category: "Git" },
    execute: async (args, context) => {
      assertAllowed(args);
      const pushed = await pushChanges({ services, context, message: subjectOf(args.message) });
      const summary = `Pushed ${pushed.commit.slice(0, 7)} to ${own}`;
      const display = { preferredView: "hidden" as const };
      return {
        llmContent: `${summary}.`,
        value: { kind: "git.push", data: { branch: own, pushed }, summary, display },
      };
    },
  };
}
