import { type Approval, approvalDigest } from "#approval.ts";
import type { ModelCall } from "#events.ts";
import { canWrite } from "#github.ts";
import type { ToolResult } from "#result.ts";
import type { Desk } from "#runtime/desk.ts";
import type { Done, EffectHandler } from "#runtime/drive.ts";
import { openCallOf, readBase } from "#runtime/read-log.ts";
import type { Effect } from "#runtime/store/store.ts";
import { callContext } from "./call-context.ts";
import type { EffectServices } from "./effect-services.ts";

/**
 * Runs one call. What it changed in the sandbox is stored with its result, so a call that died half way has changed
 * nothing. An approval is checked here once more: for this very call, by someone who may still give it.
 */
export function executeTool({ store }: EffectServices): EffectHandler {
  return {
    attempts: 3,
    async perform(effect, desk, signal) {
      const { callId, approvalId } = effect.input as { callId: string; approvalId?: string };
      const { call, step } = openCallOf(await desk.log(), callId);
      const [belt, sandbox] = [await desk.tools(signal), await desk.sandbox(signal)];

      // What an earlier attempt left half done was never stored.
      sandbox.rollback();
      const granted = await grant(call, approvalId, desk);
      if (granted.refusal) return finished(effect, call, granted.refusal);
      if (effect.attempts > 1 && belt.find(call.tool)?.afterCrash === "report")
        return finished(effect, call, unknownEffect);

      const result = await belt.execute({ ...call, args: granted.args }, callContext(desk, call, step, signal));
      if (signal.aborted) {
        sandbox.rollback();
        throw signal.reason;
      }
      return {
        ...finished(effect, call, granted.changed ? tellChange(result, granted.args) : result),
        usedApproval: approvalId,
        changes: sandbox.unsettled(`${step}/${callId}`),
        afterCommit: () => sandbox.settle(),
        afterCancel: () => sandbox.rollback(),
      };
    },
    async giveUp(effect, desk, error) {
      const { callId } = effect.input as { callId: string };
      const { call } = openCallOf(await desk.log(), callId);
      return finished(
        effect,
        call,
        failure(`It could not be run: ${error instanceof Error ? error.message : "unknown reason"}`),
      );
    },
  };

  async function grant(call: ModelCall, approvalId: string | undefined, desk: Desk): Promise<Grant> {
    if (!approvalId) return { args: call.args };

    const approval = await store.approval(approvalId);
    if (approval?.status !== "approved")
      return { args: call.args, refusal: failure("Its approval is not valid any more.") };
    const args = approval.changedArgs ?? approval.args;
    const { id: runId, workerPath } = desk.spec;
    const baseCommit = readBase(await desk.log())?.commit ?? "";
    const digest = approvalDigest({ runId, workerPath, callId: call.callId, tool: call.tool, args, baseCommit });
    if (digest !== approval.digest)
      return { args, refusal: failure("What was approved is not this call; it was not run.") };
    if (!(await mayStillApprove(desk, approval))) {
      return {
        args,
        refusal: failure(
          `@${approval.decidedBy} approved it, but GitHub does not confirm write access any more; it was not run.`,
        ),
      };
    }
    return { args, changed: approval.changedArgs !== undefined };
  }
}

interface Grant {
  args: unknown;
  refusal?: ToolResult;
  changed?: boolean;
}

async function mayStillApprove({ github }: Desk, { decidedBy }: Approval): Promise<boolean> {
  return decidedBy !== undefined && canWrite(await github.permissionOf(decidedBy));
}

function finished(effect: Effect, { callId, tool }: ModelCall, result: ToolResult): Done {
  return { events: [{ runId: effect.runId, event: { type: "tool.finished", callId, tool, result } }] };
}

function failure(message: string): ToolResult {
  return {
    llmContent: message,
    value: { kind: "text", content: message },
    error: { type: "system_error", code: "EXECUTION_ERROR", message },
  };
}

const unknownEffect = failure(
  "The process stopped while this call was under way. It is not known whether it took effect: look before you try again.",
);

function tellChange(result: ToolResult, args: unknown): ToolResult {
  const note = `A person changed the arguments before approving; this ran: ${JSON.stringify(args)}`;
  return { ...result, llmContent: `${note}\n${result.llmContent}` };
}
