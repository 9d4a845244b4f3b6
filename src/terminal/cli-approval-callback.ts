import type { Readable, Writable } from "node:stream";
import type { ApprovalCallback } from "#ui/approval-controller.ts";
import { askApproval } from "./ask-approval.ts";
import { createPaint } from "./paint.ts";
import { openPrompter } from "./prompter.ts";

export interface CLIApprovalOptions {
  /** Default: the process's own. */
  input?: Readable;
  output?: Writable;
}

/**
 * An approval callback that asks at the prompt: yes, no, always for the session, or deny with a reason. It shares the
 * input with an event CLI adapter of the same streams. Requests that come at once are asked one after the other.
 */
export function createCLIApprovalCallback({
  input = process.stdin,
  output = process.stdout,
}: CLIApprovalOptions = {}): ApprovalCallback {
  return async (request) => {
    const { toolName, toolArgs, description } =
      "toolName" in request ? request : { toolName: request.tool, toolArgs: request.args, description: request.reason };
    const { preview, delegationPath: path = [] } = request;
    const prompter = openPrompter(input, output);
    try {
      const shown = { toolName, toolArgs, description, path, ...(preview !== undefined && { preview }) };
      const answer = await askApproval(shown, { prompter, paint: createPaint(output) });
      if (answer.approved) return answer;
      return { approved: false, remember: "none", ...(answer.reason !== undefined && { note: answer.reason }) };
    } finally {
      prompter.release();
    }
  };
}
