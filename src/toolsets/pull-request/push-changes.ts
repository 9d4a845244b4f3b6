import { createHash } from "node:crypto";
import { z } from "zod";
import { canonicalJson } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import { changesIn, type FileChange, type Preview } from "#domain/preview.ts";
import type { ToolContext } from "#domain/tool.ts";
import { fileChange } from "#sandbox/preview-files.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";
import { proposedFiles } from "./outgoing-changes.ts";

/** What stands on the run's own branch, as the call that pushed it wrote down. */
export const Pushed = z.object({
  commit: z.string(),
  /** sha256 of every change the commit holds. */
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
 * Commits the run's changes to its own branch. The same call made again makes the same commit: its parent is what
 * earlier calls pushed, not what the branch says now, and its time comes from the run and the step.
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
    message: sanitize(message),
    author: { name: login, email: `${login}@users.noreply.github.com` },
    at: new Date(Math.floor(spec.createdAt / 1_000) * 1_000 + context.run.step * 1_000),
    ...(last ? { expectedTip: last.commit } : {}),
    signal: context.abortSignal,
  });
  return { commit, changes };
}

/** What the run pushed last, from its finished calls; a call that failed after its push counts too. */
export function lastPushed(history: readonly FinishedCall[]): Pushed | undefined {
  for (const { result } of history.toReversed()) {
    const data = "data" in result.value ? result.value.data : undefined;
    const noted = z.object({ pushed: Pushed }).safeParse(result.error?.details ?? data);
    if (noted.success) return noted.data.pushed;
  }
  return undefined;
}

/** The changes of the next push, within its limits. What a person approved is pushed as approved, or not at all. */
async function changesToPush({ sandbox }: ToolServices, approved: Preview | undefined): Promise<FileChange[]> {
  const changes = (await proposedFiles(sandbox)).map(fileChange);
  const bytes = changes.reduce((sum, { size }) => sum + size, 0);
  if (changes.length > maxFiles || bytes > maxBytes) {
    throw new ToolError(
      `A pull request may change ${maxFiles} files and ${maxBytes / 1_000_000} MB; this one changes ${changes.length} files and ${bytes} bytes.`,
      { code: "TOO_LARGE", suggestion: "Undo what does not belong to the task; git_status shows every changed file." },
    );
  }
  if (approved && digestOf(changesIn(approved)) !== digestOf(changes)) {
    throw new ToolError("The files have changed since this was approved, so nothing was pushed.", {
      code: "STALE",
      suggestion: "Call the tool again: the present changes have to be approved.",
    });
  }
  return changes;
}

function digestOf(changes: readonly FileChange[]): string {
  const sorted = changes.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  return createHash("sha256").update(canonicalJson(sorted)).digest("hex");
}
