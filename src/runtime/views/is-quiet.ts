import { isScheduled, nothingToDo, type RunView } from "#domain/run.ts";

/**
 * True for a scheduled run that has nothing to show in its thread: it still works without having asked anyone for anything,
 * or it has found nothing to do.
 */
export function isQuiet({ spec, outcome, openCalls, pullRequest, children }: RunView): boolean {
  if (!isScheduled(spec.origin) || pullRequest !== undefined) return false;
  if (outcome)
    return outcome.kind === "answered" && outcome.text.trim().replace(/\.$/, "") === nothingToDo.slice(0, -1);
  const asksPeople = openCalls.some(
    ({ status, answeredBy }) => status === "awaitingApproval" || answeredBy === "person",
  );
  return !asksPeople && children.every((child) => child.openCalls.every(({ status }) => status !== "awaitingApproval"));
}
