import { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { ToolContext } from "#domain/tool.ts";
import { confirmLease } from "#domain/write-lease.ts";
import { approversOf } from "#runtime/approval-rules.ts";
import { openCallOf } from "#runtime/read-log.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import { checkApproval, type Grant, NotRunError } from "./check-approval.ts";
import {
  callContext,
  type EffectHandler,
  type EffectResult,
  type EffectServices,
  interruptedCall,
} from "./effect-handler.ts";

/**
 * Executes one call. Its changes to the sandbox are stored together with its result, so an interrupted call has changed
 * nothing. An approval is checked again.
 */
export function executeTool(services: Pick<EffectServices, "store" | "now">): EffectHandler<EffectOf<"tool.execute">> {
  return {
    maxAttempts: 3,
    async perform({ key: effectKey, runId, attempts, request: { callId, approvalId } }, run, signal) {
      const { call, step } = openCallOf(await run.log(), callId);
      const toolbox = await run.tools(signal);

      const execute = async (): Promise<ToolResult> => {
        const granted: Grant = approvalId
          ? await checkApproval(services, run, { call, step, approvalId, effectKey, signal })
          : { args: call.args, notes: [] };
        if (toolbox.find(call.tool)?.afterCrash === "report") {
          if (attempts > 1) throw interruptedCall();
          await confirmLease();
        }

        const { approved, approval } = granted;
        const context = {
          ...callContext(run, { callId, step, signal }),
          ...(approved && { approved }),
          ...(approval && { approval: summarize(approval) }),
        };
        const result = await toolbox.execute({ ...call, args: granted.args }, context);
        return { ...result, llmContent: [...granted.notes, result.llmContent].join("\n") };
      };
      const { result, stored } = await run.change(execute, { step: `${step}/${callId}`, signal });
      return {
        ...finished(runId, call, result),
        ...executionOf(approvalId, result),
        ...pullRequestOf(result),
        ...stored,
      };
    },
    async onFailure({ key, runId, request: { callId, approvalId } }, run, error) {
      const { call } = openCallOf(await run.log(), callId);
      const result = failure(error);
      const refused = error instanceof NotRunError;
      const approval = approvalId === undefined ? undefined : await services.store.findApproval(approvalId);
      const isKnown = refused || approval?.begun?.includes(key);
      return { ...finished(runId, call, result), ...(isKnown && executionOf(approvalId, result, { refused })) };
    },
  };
}

/** Returns the pull request that a call opened or updated, since the run also belongs to its thread. */
function pullRequestOf({ value, error }: ToolResult): { pullRequest?: number } {
  const parsed = !error && value.kind === "pull_request" ? PullRequestResult.safeParse(value).data : undefined;
  return parsed ? { pullRequest: parsed.data.number } : {};
}

const PullRequestResult = z.object({ data: z.object({ number: z.number() }) });

/** Returns the ledger entry for a call that ran under an approval, or was refused. */
export function executionOf(
  approvalId: string | undefined,
  { value, error }: ToolResult,
  { refused = false } = {},
): Pick<EffectResult, "execution"> {
  if (approvalId === undefined) return {};
  const pushed = PushResult.safeParse(error?.details ?? ("data" in value ? value.data : undefined)).data;
  return {
    execution: {
      approvalId,
      outcome: refused ? "refused" : "executed",
      ...(pushed && { commit: pushed.pushed.commit }),
      ...(error && { reason: error.message }),
    },
  };
}

const PushResult = z.object({ pushed: z.object({ commit: z.string() }) });

function summarize(approval: Approval): NonNullable<ToolContext["approval"]> {
  const { id, digest } = approval;
  return { id, digest, by: approversOf(approval) };
}

function finished(runId: string, { callId, tool }: ModelCall, result: ToolResult): EffectResult {
  return { events: [{ runId, event: { type: "tool.finished", callId, tool, result } }] };
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
  return new ToolError(`The call failed: ${error}`, { code: "EXECUTION_ERROR", cause: error });
}
