import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { previewChanges } from "#toolsets/filesystem/file-changes.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";
import { authorOf, commitTime, mergesIn, type Pushed, pushedBy, withRunTrailers } from "./push-changes.ts";

/**
 * Takes back the run's last push with a commit that has the files of the push before it. People run it; the model is never
 * offered it. History is not rewritten, and nothing is undone once someone else has pushed.
 */
export function createUndoPushTool(services: ToolServices): NamedTool<object, ToolResult> {
  const { sandbox, github, branch, spec, history } = services;
  return {
    name: "undo_push",
    description: "Take back the last push of this run with a commit that restores the files of the push before it.",
    inputSchema: z.object({}),
    needsApproval: true,
    approvalReason: () => `Take back the last push to ${branch}.`,
    preview: async (_, { abortSignal }) => {
      const { last, previous } = lastPushes(history());
      const files = await sandbox.previewRestore({ tip: last.commit, to: previous.commit }, abortSignal);
      const bindings = { [`tip of ${branch}`]: last.commit, "files of": previous.commit };
      return { ...previewChanges(files), filesFixed: true, bindings };
    },
    manualExecution: { mode: "manual", label: "Undo the last push", category: "Pull request" },
    execute: async (_, context) => {
      const { last, previous } = lastPushes(history());
      const { commit } = await sandbox.restore({
        branch,
        tip: last.commit,
        to: previous.commit,
        message: withRunTrailers(`Undo ${last.commit.slice(0, 7)}`, services, context),
        author: await authorOf(github),
        at: commitTime(spec, context),
        signal: context.abortSignal,
      });
      const pushed: Pushed = { commit, changes: previous.changes };
      const summary = `Undid ${last.commit.slice(0, 7)} with ${commit.slice(0, 7)} on ${branch}`;
      return {
        llmContent: `${summary}. The files of your sandbox are unchanged: your next push would bring the change back, unless you change or discard it.`,
        value: { kind: "git.push", data: { branch, pushed }, summary, display: { preferredView: "hidden" } },
      };
    },
  };
}

/** Returns the last push and the one before it. Throws a ToolError when the last one cannot be undone. */
function lastPushes(history: readonly FinishedCall[]): { last: Pushed; previous: Pushed } {
  const pushes = history.map(pushedBy);
  const last = pushes.findLast((pushed) => pushed !== undefined);
  const before = pushes.findLastIndex((pushed) => pushed !== undefined && pushed.commit !== last?.commit);
  const previous = pushes[before];
  if (!last) {
    throw new ToolError("This run has not pushed anything yet.", {
      code: "CONFLICT",
      suggestion: "There is nothing to undo.",
    });
  }
  if (!previous) {
    throw new ToolError("The only push of this run opened its branch.", {
      code: "CONFLICT",
      suggestion: "Close the pull request instead.",
    });
  }
  if (mergesIn(history.slice(before + 1)).length > 0) {
    throw new ToolError("The last push contains commits of others, which undoing it would drop.", {
      code: "CONFLICT",
      suggestion: "Revert it on GitHub instead.",
    });
  }
  return { last, previous };
}
