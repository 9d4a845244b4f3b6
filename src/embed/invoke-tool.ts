import type { ModelCall, RunEvent } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import { callContext } from "#runtime/effects/call-context.ts";
import { stepsOf } from "#runtime/read-log.ts";
import { failedResult, resultOfError } from "#toolsets/failed-result.ts";
import type { CallContext } from "#toolsets/toolbox.ts";
import { person } from "./drive.ts";
import { asRecord } from "./reporter.ts";
import type { Session } from "./session.ts";

/** Runs a tool that a person called, between two of the worker's own calls. The worker reads of it as news. */
export async function invokeTool(
  session: Session,
  call: ModelCall,
  { signal, tell }: { signal: AbortSignal; tell(event: RunEvent): void },
): Promise<void> {
  const { toolbox, lane, steps, report } = session;
  await lane.run(async () => {
    const step = stepsOf(session.log());
    const context: CallContext = { ...callContext(session, call, step, signal), invokedBy: "person" };
    steps.rollback();
    report.toolStarted(call, { iteration: 0, index: 1, total: 1 });
    const result = await reviewAndRun(session, call, context).catch(resultOfError);
    if (signal.aborted) steps.rollback();
    steps.pendingChanges(`${step}/${call.callId}`);
    steps.markStored();
    report.toolEnded(call, 0, result);
    if (result.error) report.status("error", `${call.tool}: ${result.error.message}`);
    const tool = toolbox.find(call.tool)?.name;
    if (tool) tell({ type: "tool.invoked", callId: call.callId, tool, by: person, args: call.args, result });
  });
}

async function reviewAndRun(
  { toolbox, around, spec }: Session,
  call: ModelCall,
  context: CallContext,
): Promise<ToolResult> {
  const review = await toolbox.review(call, context, []);
  if (review.kind === "refuse") return review.result;
  if (review.kind === "allow") return toolbox.execute(call, context);

  const { preview } = review;
  const request = {
    toolName: call.tool,
    toolArgs: asRecord(review.args),
    description: review.reason,
    delegationPath: [spec.worker.name],
    ...(preview !== undefined && { preview }),
  };
  const { approved, note, modifiedArgs } = await around.approvals.requestApproval(request, {
    signal: context.abortSignal,
  });
  if (approved !== true) {
    return failedResult(`${call.tool} was denied${note ? `: ${note}` : "."}`, { code: "DENIED" });
  }
  return toolbox.execute({ ...call, args: modifiedArgs ?? review.args }, context);
}
