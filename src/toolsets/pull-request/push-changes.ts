import { createHash } from "node:crypto";
import { z } from "zod";
import { canonicalJson } from "#domain/approval.ts";
import { withTrailers } from "#domain/commit-trailers.ts";
import { ToolError } from "#domain/errors.ts";
import { changesIn, type FileChange, type Preview } from "#domain/preview.ts";
import type { ToolContext } from "#domain/tool.ts";
import { fileChange } from "#sandbox/preview-files.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";
import { proposedFiles } from "./outgoing-changes.ts";

/** The state of the run's own branch after a push, as recorded in the result of the call. */
export const Pushed = z.object({
  commit: z.string(),
  /** SHA-256 of all changes in the commit. */
  changes: z.string(),
});
export type Pushed = z.infer<typeof Pushed>;

const maxFiles = 100;
const maxBytes = 4_000_000;

export interface PushOptions {
  services: ToolServices;
  context: ToolContext;
  message: string;
}

/**
 * Commits the run's changes to its own branch. A retry of the call creates the same commit: the parent is the commit
 * that earlier calls pushed, not the current tip of the branch, and the time is derived from the run and the step.
 */
export async function pushChanges({ services, context, message }: PushOptions): Promise<Pushed> {
  const { sandbox, github, branch, spec, sanitize } = services;
  const files = await changesToPush(services, context.approved);
  const changes = digestOf(files);
  const last = lastPushed(services.history());
  if (last?.changes === changes) return last;

  const login = await github.ownLogin();
  const { commit } = await sandbox.push({
    branch,
    changes: files,
    message: withTrailers(sanitize(message), {
      runId: spec.id,
      requestedBy: { login: spec.origin.requestedBy, id: spec.origin.requestedById },
      approval: context.approval,
    }),
    author: { name: login, email: `${login}@users.noreply.github.com` },
    at: new Date(Math.floor(spec.createdAt / 1_000) * 1_000 + context.run.step * 1_000),
    ...(last ? { expectedTip: last.commit } : {}),
    signal: context.abortSignal,
  });
  return { commit, changes };
}

/** Returns the last push among the finished calls, including calls that failed after pushing. */
export function lastPushed(history: readonly FinishedCall[]): Pushed | undefined {
  for (const { result } of history.toReversed()) {
    const data = "data" in result.value ? result.value.data : undefined;
    const details = z.object({ pushed: Pushed }).safeParse(result.error?.details ?? data);
    if (details.success) return details.data.pushed;
  }
  return undefined;
}

/** Returns the changes of the next push. Throws a ToolError if they exceed the limits or differ from the approved ones. */
async function changesToPush({ sandbox }: ToolServices, approved: Preview | undefined): Promise<FileChange[]> {
  const changes = (await proposedFiles(sandbox)).map(fileChange);
  const bytes = changes.reduce((sum, { size }) => sum + size, 0);
  if (changes.length > maxFiles || bytes > maxBytes) {
    throw new ToolError(
      `A pull request is limited to ${maxFiles} files and ${maxBytes / 1_000_000} MB; this one has ${changes.length} files and ${bytes} bytes.`,
      {
        code: "TOO_LARGE",
        suggestion: "Discard unrelated changes with git_discard; git_status lists every changed file.",
      },
    );
  }
  if (approved && digestOf(changesIn(approved)) !== digestOf(changes)) {
    throw new ToolError("The files have changed since the push was approved. Nothing was pushed.", {
      code: "STALE",
      suggestion: "Call the tool again to ask for approval of the current changes.",
    });
  }
  return changes;
}

function digestOf(changes: readonly FileChange[]): string {
  const sorted = changes.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  return createHash("sha256").update(canonicalJson(sorted)).digest("hex");
}
