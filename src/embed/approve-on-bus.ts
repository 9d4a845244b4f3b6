import type { ApprovalCallback } from "#ui/approval-controller.ts";
import type { RuntimeUI } from "#ui/runtime-ui.ts";

/** The maximum delay of a timer, so that requests do not time out. */
const maxTimerMs = 2 ** 31 - 1;

/** Requests approvals on the bus: `approvalRequired`, with tool, arguments and preview in its details. */
export function approveOnBus(ui: RuntimeUI, signal: () => AbortSignal): ApprovalCallback {
  return async ({ toolName, toolArgs, description, delegationPath = [], preview, blocks, isShownWhole }) => {
    const answer = await ui.requestApproval(
      "tool_call",
      description,
      { toolName, toolArgs, ...(preview !== undefined && { preview }), ...(blocks && { blocks, isShownWhole }) },
      "medium",
      delegationPath.map((name, depth) => ({ id: name, depth, task: name })),
      { signal: signal(), timeoutMs: maxTimerMs },
    );
    if (answer.approved === false)
      return { approved: false, ...(answer.reason !== undefined && { note: answer.reason }) };
    const { approved, modifiedArgs } = answer;
    return {
      approved: true,
      remember: approved === true ? "none" : "session",
      ...(modifiedArgs !== undefined && { modifiedArgs }),
    };
  };
}
