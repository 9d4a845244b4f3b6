import { createHash } from "node:crypto";
import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolContext } from "#domain/tool.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";
import { proposedChanges } from "./outgoing-changes.ts";

/** What stands on the run's own branch, as the call that pushed it wrote down. */
export const Pushed = z.object({
  commit: z.string(),
  /** sha256 of every change the commit holds. */
  changes: z.string(),
});
export type Pushed = z.infer<typeof Pushed>;

const mostFiles = 100;
const mostBytes = 4_000_000;

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
  const changes = await digestChanges(services);
  const last = lastPushed(services.history());
  if (last?.changes === changes) return last;

  const login = await github.ownLogin();
  const { commit } = await sandbox.push({
    branch,
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

async function digestChanges({ sandbox }: ToolServices): Promise<string> {
  const changes = await proposedChanges(sandbox);
  const hash = createHash("sha256");
  let bytes = 0;
  for (const { path, status } of changes) {
    const content = status === "deleted" ? undefined : await sandbox.read(path);
    const executable = content !== undefined && (await sandbox.stat(path)).executable;
    bytes += content?.length ?? 0;
    hash.update(JSON.stringify([path, status, executable, content?.length]));
    if (content) hash.update(content);
  }
  if (changes.length > mostFiles || bytes > mostBytes) {
    throw new ToolError(
      `A pull request may change ${mostFiles} files and ${mostBytes / 1_000_000} MB; this one changes ${changes.length} files and ${bytes} bytes.`,
      { code: "TOO_LARGE", suggestion: "Undo what does not belong to the task; git_status shows every changed file." },
    );
  }
  return hash.digest("hex");
}
