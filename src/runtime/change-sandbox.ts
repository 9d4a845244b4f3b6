import type { Sandbox } from "#sandbox/sandbox.ts";
import type { RunWorkspace, StoredWork } from "./run-environment.ts";

/** Does work that may change a sandbox; see `RunWorkspace.change`. */
export async function changeSandbox<Result>(
  sandbox: Pick<Sandbox, "pendingChanges" | "markStored" | "rollback">,
  work: () => Promise<Result>,
  { step, signal }: Parameters<RunWorkspace["change"]>[1],
): Promise<{ result: Result; stored: Pick<StoredWork, "changes" | "afterCommit" | "afterCancel"> }> {
  sandbox.rollback();
  const result = await work();
  if (signal.aborted) {
    sandbox.rollback();
    throw signal.reason;
  }
  return {
    result,
    stored: {
      changes: sandbox.pendingChanges(step),
      afterCommit: () => sandbox.markStored(),
      afterCancel: () => sandbox.rollback(),
    },
  };
}
