import type { Approval } from "#domain/approval.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import { canWrite, type GitHub, type PullRequest } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Runs } from "#runtime/runs.ts";
import { parseJsonObject } from "#text/json-values.ts";
import { parseToolCommand, type RunCommandOf, undoCommand } from "#ui/run-commands.ts";

/** The commands of a run page. `say` sends a message to the worker. */
export type PageAction = RunCommandOf<"page"> | "say";
export const pageActions = [
  "approve",
  "deny",
  "revoke",
  "stop",
  "resume",
  "cancel",
  "retry",
  "exit",
  "model",
  "ready",
  "update",
  "undo",
  "say",
] as const satisfies PageAction[];

export interface PageCommand {
  action: PageAction;
  fields: URLSearchParams;
  by: string;
  byId: number;
  /** The root run on whose page the command was given. */
  spec: RunSpec;
  /** The approvals of that run and its children. */
  approvals: readonly Approval[];
}

const maxTextLength = 20_000;
const maxReasonLength = 2_000;
const maxModelLength = 200;

/**
 * Executes a command from a run page the way the same command from a thread is executed, after asking GitHub whether the
 * person has write access. Resolves to a message about the result; throws a UserError if the command cannot be executed.
 */
export async function executePageCommand(
  command: PageCommand,
  { runs, github }: { runs: Runs; github: GitHub },
): Promise<string> {
  const { action, by, byId, spec, fields } = command;
  await assertCanCommand(command, github);
  const request = { by, byId, via: "page" as const, runId: spec.id };
  const text = (fields.get("text") ?? "").slice(0, maxTextLength).trim();
  switch (action) {
    case "approve":
      return fields.has("raise") ? raiseCostLimit(command, runs) : decideApproval(command, runs);
    case "deny":
      return decideApproval(command, runs);
    case "revoke": {
      const { id } = requestedApproval(command);
      const note = readReason(fields);
      await runs.revokeApproval(spec.origin, { ...request, target: id, ...(note ? { note } : {}) });
      return `Revoked ${id}.`;
    }
    case "stop":
      await runs.requestStop(spec.origin, request);
      return "Stopping.";
    case "cancel":
      await runs.requestCancel(spec.origin, request);
      return "Cancelled.";
    case "retry": {
      await assertThreadIsOpen(spec, github);
      const { commentId: _, trigger: __, ...thread } = spec.origin;
      await runs.requestRetry(thread, {
        ...request,
        origin: { ...thread, requestedBy: by, requestedById: byId },
      });
      return "Trying again. A worker that had ended starts as a new run, which the thread links to.";
    }
    case "exit":
      await runs.requestExit(spec.origin, request);
      return "The worker ends with what it has done.";
    case "model":
      return changeModel(command, runs);
    case "undo":
      await runs.runToolCommand(spec.origin, { ...request, command: parseToolCommand(undoCommand) });
      return "The thread shows what would be reverted. Confirm it there.";
    case "ready": {
      const pull = await openPullRequest(command, { runs, github });
      if (pull.draft) await github.markReadyForReview(pull.number);
      return `#${pull.number} is ready for review.`;
    }
    case "update": {
      const { number, base } = await openPullRequest(command, { runs, github });
      const reason = `@${by} asked for this on the run page.`;
      await runs.requestBaseMerge({ ...spec.origin, thread: number }, { base: base.branch, reason });
      return `The worker was asked to merge ${base.branch} into #${number}.`;
    }
    case "resume":
      await assertThreadIsOpen(spec, github);
      await runs.requestResume(spec.origin, { ...request, ...(text ? { text } : {}) });
      return "Resumed.";
    case "say":
      if (text === "") throw new UserError("The message is empty.");
      // A form of a question answers that one, and no other that is open or has been asked since.
      if (
        !(await runs.deliverMessage(spec.origin, { ...request, text, question: fields.get("question") ?? undefined }))
      ) {
        throw new UserError("This run has already ended.");
      }
      return "Message sent.";
  }
}

async function assertCanCommand({ by, byId, spec }: PageCommand, github: GitHub): Promise<void> {
  const permission = await github.getPermission(by, byId).catch((error) => {
    if (!(error instanceof OutageError)) throw error;
    throw new UserError(
      "GitHub is not answering, so your access could not be checked. Nothing was changed. Try again.",
    );
  });
  if (canWrite(permission)) return;
  const { owner, repo } = spec.origin;
  throw new UserError(`You need write access to ${owner}/${repo} to do this. Nothing was changed.`);
}

/** Switches to the given model; without one, lists those that the run may use. */
async function changeModel({ by, byId, spec, fields }: PageCommand, runs: Runs): Promise<string> {
  const model = (fields.get("model") ?? "").trim();
  if (model === "") {
    const { current, available } = await runs.listModels(spec.origin, { runId: spec.id });
    return `The run uses ${current}. Models it may use: ${available.join(", ")}.`;
  }
  await runs.changeModel(spec.origin, { by, byId, via: "page", runId: spec.id, model: model.slice(0, maxModelLength) });
  return `The next model calls use ${model}.`;
}

async function openPullRequest(
  { spec }: PageCommand,
  { runs, github }: { runs: Runs; github: GitHub },
): Promise<PullRequest> {
  const view = await runs.findRunView(spec.id);
  if (view?.pullRequest === undefined) throw new UserError("This run has not opened a pull request yet.");
  if (view.outcome) throw new UserError("This run has already ended.");
  const pull = await github.getPullRequest(view.pullRequest);
  if (pull?.state === "open") return pull;
  throw new UserError(`Pull request #${view.pullRequest} is not open.`);
}

function requestedApproval({ fields, approvals }: Pick<PageCommand, "fields" | "approvals">): Approval {
  const id = fields.get("approval") ?? "";
  const approval = approvals.find((candidate) => candidate.id === id);
  if (!approval) throw new UserError(`This run has no approval request ${id.slice(0, 40)}.`);
  return approval;
}

function readReason(fields: URLSearchParams): string {
  return (fields.get("reason") ?? "").slice(0, maxReasonLength).trim();
}

async function decideApproval(command: PageCommand, runs: Runs): Promise<string> {
  const { action, by, byId, spec, fields } = command;
  const approval = requestedApproval(command);
  const { id } = approval;
  // An approval with edited arguments has a new digest. It is no longer pending then, and the runtime reports who decided it.
  if (approval.status === "pending" && approval.digest !== fields.get("digest")) {
    throw new UserError(`Request ${id} has changed since this page was loaded. Review it again, then decide.`);
  }
  const reason = readReason(fields);
  const changed = fields.get("arguments");
  const [decided] = await runs.decideApprovals(spec.origin, {
    by,
    byId,
    via: "page",
    target: id,
    approve: action === "approve",
    remember: fields.get("session") === "yes" ? "session" : "none",
    ...(reason ? { note: reason } : {}),
    ...(changed === null ? {} : { changedArgs: parseArguments(changed) }),
  });
  if (decided?.status === "pending") return `Your approval of ${id} is recorded; more people have to approve.`;
  return action === "approve" ? `Approved ${id}.` : `Denied ${id}.`;
}

async function raiseCostLimit({ by, byId, spec, fields }: PageCommand, runs: Runs): Promise<string> {
  const amount = Number(/^\$?(\d{1,6}(?:\.\d{1,2})?)$/.exec(fields.get("raise")?.trim() ?? "")?.[1]);
  if (!(amount > 0)) throw new UserError("Enter an amount in US dollars, such as 2.50.");
  const limit = await runs.raiseCostLimit(spec.origin, { by, byId, via: "page", runId: spec.id, amount });
  return limit === undefined ? "The cost limit was raised." : `The cost limit is now $${limit.toFixed(2)}.`;
}

function parseArguments(json: string): object {
  const args = parseJsonObject(json);
  if (!args) throw new UserError("Nothing was approved: the arguments must be one JSON object.");
  return args;
}

async function assertThreadIsOpen({ origin }: RunSpec, github: GitHub): Promise<void> {
  const issue = await github.getIssue(origin.thread);
  if (issue?.state === "open" && !issue.locked) return;
  throw new UserError("The issue or pull request of this run is closed or locked. Reopen it to resume the run.");
}
