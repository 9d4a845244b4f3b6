import type { EffectResult } from "#runtime/run-scheduler.ts";
import type { Sandbox } from "#sandbox/sandbox.ts";

/**
 * Runs work that may change the sandbox, and gives what it came to with the changes to be stored with it. What an
 * interrupted one had changed is dropped, and the signal's reason thrown.
 */
export async function runInSandbox<Result>(
  sandbox: Sandbox,
  { step, signal }: { step: string; signal: AbortSignal },
  work: () => Promise<Result>,
): Promise<{ result: Result; stored: Pick<EffectResult, "changes" | "afterCommit" | "afterCancel"> }> {
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
