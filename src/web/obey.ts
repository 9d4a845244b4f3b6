import type { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import { canWrite, type GitHub } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Runs } from "#runtime/runs.ts";
import type { RunCommandOf } from "#ui/run-commands.ts";

export type Action = RunCommandOf<"page"> | "say";
export const actions: readonly Action[] = ["approve", "deny", "stop", "resume", "say"];

export interface Order {
  action: Action;
  fields: URLSearchParams;
  by: string;
  /** The root run whose page it was given on. */
  spec: RunSpec;
  /** The approvals of its tree. */
  approvals: readonly Approval[];
}

const longestText = 20_000;

/**
 * Does what a person who signed in said on a run's page, by the same door as what is said in the thread, and with the same
 * question to GitHub, asked anew. Resolves to a sentence on what happened; throws a UserError with words for the person.
 */
export async function obey(order: Order, { runs, github }: { runs: Runs; github: GitHub }): Promise<string> {
  const { action, by, spec, fields } = order;
  const { owner, repo } = spec.origin;
  if (!canWrite(await github.getPermission(by))) {
    throw new UserError(
      `Commanding a worker takes write access to ${owner}/${repo}, and GitHub does not say that ${by} has it. Nothing was changed.`,
    );
  }
  const heard = { by, via: "page" as const };
  const text = (fields.get("text") ?? "").slice(0, longestText).trim();
  switch (action) {
    case "approve":
    case "deny":
      return decide(order, runs);
    case "stop":
      await runs.requestStop(spec.origin, heard);
      return "Stopping.";
    case "resume":
      await refuseWhereOver(spec, github);
      await runs.requestResume(spec.origin, { ...heard, ...(text ? { text } : {}) });
      return "It goes on.";
    case "say":
      if (text === "") throw new UserError("There is nothing to say yet.");
      if (!(await runs.deliverMessage(spec.origin, { ...heard, text })))
        throw new UserError("Nobody listens here any more.");
      return "Said.";
  }
}

async function decide({ action, by, spec, fields, approvals }: Order, runs: Runs): Promise<string> {
  const id = fields.get("approval") ?? "";
  const approval = approvals.find((one) => one.id === id);
  if (!approval) throw new UserError(`There is no approval ${id.slice(0, 40)} in this run.`);
  // Arguments that a person changed have a digest of their own; then it is decided, and the door says by whom.
  if (approval.status === "pending" && approval.digest !== fields.get("digest")) {
    throw new UserError(`What ${id} would do is not what this page showed. Look at it again, then decide.`);
  }
  const reason = (fields.get("reason") ?? "").slice(0, 2_000).trim();
  const changed = fields.get("arguments");
  await runs.decideApprovals(spec.origin, {
    by,
    via: "page",
    target: id,
    approve: action === "approve",
    remember: fields.get("session") === "yes" ? "session" : "none",
    ...(reason ? { note: reason } : {}),
    ...(changed === null ? {} : { changedArgs: readObject(changed) }),
  });
  return action === "approve" ? `${id} is approved.` : `${id} is denied.`;
}

function readObject(json: string): object {
  try {
    const value: unknown = JSON.parse(json);
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return value;
  } catch {
    // What is no JSON is no object either.
  }
  throw new UserError("Nothing was approved: the arguments must be one JSON object.");
}

async function refuseWhereOver({ origin }: RunSpec, github: GitHub): Promise<void> {
  const issue = await github.getIssue(origin.thread);
  if (issue?.state === "open" && !issue.locked) return;
  throw new UserError("The thread of this run is closed or locked, so no worker goes on here. Open it first.");
}
