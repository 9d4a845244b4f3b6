import type { Readable, Writable } from "node:stream";
import { type ApprovalRequest, withAllNames } from "#ui/approval-controller.ts";
import type { ApprovalDecision } from "#ui/approval-memory.ts";
import { askApproval } from "./ask-approval.ts";
import { openPrompter } from "./prompter.ts";
import { createStyle } from "./style.ts";

export interface CLIApprovalOptions {
  /** Default: standard input. */
  input?: Readable;
  output?: Writable;
}

/**
 * Creates an approval callback that asks at the prompt: yes, no, always for the session, or deny with a reason. It shares
 * the input with an event CLI adapter of the same streams. Concurrent requests are asked one after the other.
 */
export function createCLIApprovalCallback({
  input = process.stdin,
  output = process.stdout,
}: CLIApprovalOptions = {}): (request: ApprovalRequest) => Promise<ApprovalDecision> {
  return async (request) => {
    const { toolName, toolArgs, description, preview, blocks, isShownWhole, delegationPath } = withAllNames(request);
    const path = delegationPath ?? [];
    const prompter = openPrompter(input, output);
    try {
      const shown = { toolName, toolArgs, description, path, preview, blocks, isShownWhole };
      const answer = await askApproval(shown, { prompter, style: createStyle(output) });
      if (answer.approved) return answer;
      return { approved: false, remember: "none", ...(answer.reason !== undefined && { note: answer.reason }) };
    } finally {
      prompter.release();
    }
  };
}
