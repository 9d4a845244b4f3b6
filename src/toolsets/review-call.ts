import { type Approval, canonicalJson, coversCall } from "#domain/approval.ts";
import { BlockedError, ToolError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import { hideFiles, type Preview } from "#domain/preview.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { createRedactor } from "#text/redact.ts";
import { toPreview } from "#ui/request-blocks.ts";
import { abandonOnAbort } from "./abandon-on-abort.ts";
import { failedResult, interruptedResult, resultOfError } from "./failed-result.ts";
import { prepareCall } from "./prepare-call.ts";
import { openToolContext, type ToolExecutionContext } from "./tool-execution-context.ts";
import type { CallContext, PreparedCall, Review } from "./toolbox.ts";

/** Decides whether a call runs, needs approval, or is refused. Never throws. */
export async function reviewCall(
  execution: ToolExecutionContext,
  call: ModelCall,
  context: CallContext,
  remembered: readonly Approval[],
): Promise<Review> {
  const review = async () => {
    const prepared = await prepareCall(execution, call, context);
    if ("refused" in prepared) return refuse(prepared.refused);
    // People may repeat a call as often as they like.
    const isRedundant = prepared.invokedBy === "model" && execution.repeated.isRedundant(prepared, context.run.step);
    return isRedundant ? refuse(redundant(prepared)) : decide(execution, prepared, context, remembered);
  };
  try {
    const outcome = await abandonOnAbort(review, context.abortSignal);
    return outcome.abandoned ? refuse(interruptedResult(call.tool, { started: false })) : outcome.value;
  } catch (error) {
    return refuse(resultOfError(error));
  }
}

function refuse(result: ToolResult): Review {
  return { kind: "refuse", result };
}

function redundant({ tool }: PreparedCall): ToolResult {
  const message = `Redundant tool call: ${tool.name} was already called with the same arguments in this turn.`;
  return failedResult(message, {
    code: "REDUNDANT_CALL",
    type: "validation_error",
    suggestion: "Use the result of the first call.",
  });
}

async function decide(
  execution: ToolExecutionContext,
  prepared: PreparedCall,
  callContext: CallContext,
  remembered: readonly Approval[],
): Promise<Review> {
  const { tool, value, args } = prepared;
  const { context, close } = openToolContext(execution.workspace, prepared.call, callContext);
  // Nothing may be changed before the call is allowed.
  close();

  const answeredBy = tool.answeredBy?.kind ?? "tool";
  const need = await approvalNeed(tool, value, context);
  if (need.kind === "refused") return refuse(need.result);
  const mayRun = need.kind === "none" && !execution.alwaysAsk.includes(tool.name);
  if (mayRun) return { kind: "allow", answeredBy, args };

  const shown = await previewOf(tool, value, context);
  if (shown.kind === "refused") return refuse(shown.result);
  const preview = shown.preview && hideFiles(shown.preview, holdsSecret);
  if (hidesText(args, preview)) return refuse(unshowable(tool));
  const known = remembered.find((approval) => coversCall(approval, { tool: tool.name, args, preview }));
  if (known) return { kind: "allow", answeredBy, args, approvalId: known.id };
  const reason = approvalReason(prepared, callContext, need.kind === "asked" ? need.ruleFailure : undefined);
  return { kind: "ask", answeredBy, args, reason, preview };
}

const redact = createRedactor([]);
const holdsSecret = (text: string) => redact(text) !== text;

/**
 * True when text that a person would have to read cannot be posted, since it looks like a secret. Arguments need not be
 * readable where a preview says what they lead to.
 */
function hidesText(args: unknown, preview: Preview | undefined): boolean {
  const sections = preview?.sections ?? [];
  const texts = sections.flatMap((section) => (section.kind === "text" ? [section.text] : []));
  return [...texts, ...(sections.length > 0 ? [] : [canonicalJson(args)])].some(holdsSecret);
}

function unshowable({ name }: NamedTool): ToolResult {
  return failedResult(
    `${name} needs approval, and its text holds what looks like a secret, which must not be posted.`,
    {
      code: "INVALID_ARGUMENTS",
      suggestion: "Leave the secret out, and call it again.",
    },
  );
}

type Refused = { kind: "refused"; result: ToolResult };

async function approvalNeed(
  tool: NamedTool,
  value: unknown,
  context: ToolContext,
): Promise<{ kind: "none" } | { kind: "asked"; ruleFailure?: string } | Refused> {
  // Secure by default: a tool that does not say whether it needs approval needs it.
  const { needsApproval = true } = tool;
  try {
    const needed = typeof needsApproval === "function" ? await needsApproval(value, context) : needsApproval;
    // Only an explicit false lets a call run unasked; a rule that returns nothing has not decided.
    return needed === false ? { kind: "none" } : { kind: "asked" };
  } catch (error) {
    if (error instanceof BlockedError) return { kind: "refused", result: blocked(tool, error) };
    if (error instanceof ToolError) return { kind: "refused", result: resultOfError(error) };
    return { kind: "asked", ruleFailure: error instanceof Error ? error.message : String(error) };
  }
}

function blocked({ name }: NamedTool, { reason }: BlockedError): ToolResult {
  return failedResult(`${name} is blocked by policy: ${reason}`, {
    code: "BLOCKED",
    suggestion: "Nobody can approve this. Find another way, or report that it cannot be done.",
  });
}

/** A call that cannot work is refused before anyone is asked; a preview that merely fails is left out. */
async function previewOf(
  tool: NamedTool,
  value: unknown,
  context: ToolContext,
): Promise<{ kind: "shown"; preview: Preview | undefined } | Refused> {
  try {
    return { kind: "shown", preview: toPreview(await tool.preview?.(value, context)) };
  } catch (error) {
    if (error instanceof ToolError) return { kind: "refused", result: resultOfError(error) };
    return { kind: "shown", preview: undefined };
  }
}

function approvalReason({ tool, value }: PreparedCall, { run }: CallContext, ruleFailure: string | undefined): string {
  const reason = ownReason(tool, value) ?? `${run.worker} wants to call ${tool.name}.`;
  return ruleFailure === undefined ? reason : `${reason} The tool's own approval rule failed: ${ruleFailure}`;
}

function ownReason(tool: NamedTool, value: unknown): string | undefined {
  try {
    return tool.approvalReason?.(value);
  } catch {
    return undefined;
  }
}
