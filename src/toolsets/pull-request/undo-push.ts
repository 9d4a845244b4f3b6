import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { digestOfChanges } from "#sandbox/preview-files.ts";
import { previewChanges } from "#toolsets/filesystem/file-changes.ts";
import { ownPullRequest } from "#toolsets/github/pull-request.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import {
  authorOf,
  commitTime,
  lastPushed,
  type Pushed,
  pushedBy,
  pushParents,
  withRunTrailers,
} from "./push-changes.ts";

/**
 * Reverts the run's last push with a commit that restores the previous files: those of the run's earlier push, or of
 * what people had pushed by then. People run it; the model is never offered it. History is not rewritten, and nothing
 * is undone once someone else has pushed.
 */
export function createUndoPushTool(services: ToolServices): NamedTool<object, ToolResult> {
  const { sandbox, github, branch, spec } = services;
  return {
    name: "undo_push",
    description: "Take back the last push of this run with a commit that restores the files of the commit before it.",
    inputSchema: z.object({}),
    needsApproval: true,
    approvalReason: () => `Take back the last push to ${branch}.`,
    preview: async (_, { abortSignal }) => {
      await assertNotMerged(services);
      const { last, to } = lastPush(services);
      const files = await sandbox.previewRestore({ tip: last.commit, to }, abortSignal);
      const bindings = { [`tip of ${branch}`]: last.commit, "files of": to };
      return { ...(await previewChanges(files)), filesFixed: true, bindings };
    },
    manualExecution: { mode: "manual", label: "Undo the last push", category: "Pull request" },
    execute: async (_, context) => {
      await assertNotMerged(services);
      const { last, to, changes } = lastPush(services);
      const commit = await sandbox.restore({
        branch,
        tip: last.commit,
        to,
        message: withRunTrailers(`Undo ${last.commit.slice(0, 7)}`, services, context),
        author: await authorOf(github),
        at: commitTime(spec, context),
        signal: context.abortSignal,
      });
      const pushed: Pushed = { commit, changes };
      const summary = `Undid ${last.commit.slice(0, 7)} with ${commit.slice(0, 7)} on ${branch}`;
      return {
        llmContent: `${summary}. The files of your sandbox are unchanged: your next push would bring the change back, unless you change or discard it.`,
        value: { kind: "git.push", data: { branch, pushed }, summary, display: { preferredView: "hidden" } },
      };
    },
  };
}

async function assertNotMerged(services: ToolServices): Promise<void> {
  if (!lastPushed(services.history())) return;
  const { number, merged } = await ownPullRequest(services);
  if (!merged) return;
  throw new ToolError(`Pull request #${number} has been merged.`, {
    code: "CONFLICT",
    suggestion: "Revert it on GitHub instead.",
  });
}

/** Returns the last push and the commit to return to. Throws a ToolError if the push cannot be undone. */
function lastPush(services: ToolServices): { last: Pushed; to: string; changes: string } {
  const history = services.history();
  const last = lastPushed(history);
  if (!last) {
    throw new ToolError("This run has not pushed anything yet.", {
      code: "CONFLICT",
      suggestion: "There is nothing to undo.",
    });
  }
  // A call that found nothing new to push has the commit of an earlier call.
  const before = history.slice(
    0,
    history.findIndex((call) => pushedBy(call)?.commit === last.commit),
  );
  const { tip, merged } = pushParents(services, before);
  if (tip === undefined) {
    throw new ToolError("This run has pushed only once, and that push created its branch.", {
      code: "CONFLICT",
      suggestion: "Close the pull request instead.",
    });
  }
  if (merged.some(({ branch }) => branch !== services.branch)) {
    throw new ToolError("The last push contains other people's commits, which an undo would drop.", {
      code: "CONFLICT",
      suggestion: "Revert it on GitHub instead.",
    });
  }
  return { last, to: tip, changes: lastPushed(before)?.changes ?? digestOfChanges([]) };
}
