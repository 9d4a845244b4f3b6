import { ToolError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { Grant } from "#runtime/calls/confirm-approval.ts";
import type { EffectHandler, EffectResult } from "#runtime/effects/effect-handler.ts";
import { openCallOf } from "#runtime/read-log.ts";
import type { Effect } from "#runtime/store/store.ts";
import { callContext } from "./call-context.ts";
import { checkApproval } from "./check-approval.ts";
import type { EffectServices } from "./effect-services.ts";
import { interruptedCall } from "./unknown-effect.ts";

/**
 * Runs one call. What it changed in the sandbox is stored with its result, so a call that died half way has changed
 * nothing. An approval is checked here once more.
 */
export function executeTool(services: EffectServices): EffectHandler {
  return {
    maxAttempts: 3,
    async perform(effect, desk, signal) {
      const { callId, approvalId } = effect.input as { callId: string; approvalId?: string };
      const { call, step } = openCallOf(await desk.log(), callId);
      const toolbox = await desk.tools(signal);

      const execute = async (): Promise<ToolResult> => {
        const granted: Grant = approvalId
          ? await checkApproval(services, desk, { call, step, approvalId, signal })
          : { args: call.args, notes: [] };
        if (effect.attempts > 1 && toolbox.find(call.tool)?.afterCrash === "report") throw interruptedCall();

        const context = {
          ...callContext(desk, call, step, signal),
          ...(granted.approved && { approved: granted.approved }),
        };
        const result = await toolbox.execute({ ...call, args: granted.args }, context);
        return { ...result, llmContent: [...granted.notes, result.llmContent].join("\n") };
      };
      const { result, stored } = await desk.change(execute, { step: `${step}/${callId}`, signal });
      return { ...finished(effect, call, result), usedApproval: approvalId, ...stored };
    },
    async onFailure(effect, desk, error) {
      const { callId } = effect.input as { callId: string };
      const { call } = openCallOf(await desk.log(), callId);
      return finished(effect, call, failure(error));
    },
  };
}

function finished(effect: Effect, { callId, tool }: ModelCall, result: ToolResult): EffectResult {
  return { events: [{ runId: effect.runId, event: { type: "tool.finished", callId, tool, result } }] };
}

function failure(error: unknown): ToolResult {
  const { code, type, suggestion } = error instanceof ToolError ? error : unexpected(error);
  const message = error instanceof Error ? error.message : String(error);
  return {
    llmContent: suggestion ? `${message} ${suggestion}` : message,
    value: { kind: "text", content: message },
    error: { type, code, message, suggestion },
  };
}

function unexpected(error: unknown): ToolError {
  return new ToolError(`It could not be run: ${error}`, { code: "EXECUTION_ERROR", cause: error });
}
