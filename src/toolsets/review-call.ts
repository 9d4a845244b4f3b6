import { canonicalJson } from "#domain/approval.ts";
import { BlockedError, ToolError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import type { OpenCall } from "#domain/run.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { abandonOnAbort } from "./abandon-on-abort.ts";
import { failedResult, interruptedResult, resultOfError } from "./failed-result.ts";
import { type FoundCall, findCall } from "./find-call.ts";
import { revocableWorkspace } from "./revocable-workspace.ts";
import { type ToolExecutionContext, toolContext } from "./tool-execution-context.ts";
import type { CallContext, Review } from "./toolbox.ts";

/** What a person agreed to for the whole session. */
export type Remembered = readonly { tool: string; args: unknown }[];

/** Says whether a call may run, must be asked for, or will not run. Never throws. */
export async function reviewCall(
  desk: ToolExecutionContext,
  call: ModelCall,
  context: CallContext,
  remembered: Remembered,
): Promise<Review> {
  const reviewing = async () => {
    const found = await findCall(desk, call, context);
    if ("refused" in found) return refuse(found.refused);
    return (await refuseRepetition(desk, call, context, found)) ?? judge(desk, call, context, remembered, found);
  };
  try {
    const review = await abandonOnAbort(reviewing, context.abortSignal);
    return review.abandoned ? refuse(interruptedResult(call.tool, { started: false })) : review.value;
  } catch (error) {
    return refuse(resultOfError(error));
  }
}

function refuse(result: Extract<Review, { kind: "refuse" }>["result"]): Review {
  return { kind: "refuse", result };
}

async function refuseRepetition(
  desk: ToolExecutionContext,
  call: ModelCall,
  { run, invokedBy }: CallContext,
  { tool, args }: FoundCall,
): Promise<Review | undefined> {
  // People may look as often as they like.
  if (invokedBy === "person") return undefined;
  const checked = { callId: call.callId, tool, args: [call.args, args] as const, step: run.step };
  if (!desk.repeated.isRedundant(checked)) return undefined;

  const message = `Redundant tool call: ${tool.name} was already called with the same arguments in this turn.`;
  return refuse(
    failedResult(message, {
      code: "REDUNDANT_CALL",
      type: "validation_error",
      suggestion: "Use the result of the first call.",
    }),
  );
}

async function judge(
  desk: ToolExecutionContext,
  call: ModelCall,
  context: CallContext,
  remembered: Remembered,
  { tool, value, args }: FoundCall,
): Promise<Review> {
  const lent = revocableWorkspace(desk.workspace);
  // Whoever is asked about a call has nothing to change yet.
  lent.revoke();
  const forTool = toolContext(lent.workspace, call.callId, context);
  const as = answererOf(tool);
  const consent = await needsConsent(tool, value, forTool);

  if (consent.kind === "refuse") return refuse(consent.result);
  if (consent.kind === "free" || isRemembered(desk, tool, args, remembered))
    return { kind: "allow", answeredBy: as, args };

  const preview = await previewOf(tool, value, forTool);
  if (preview.kind === "refuse") return refuse(preview.result);
  return {
    kind: "ask",
    answeredBy: as,
    args,
    reason: reasonFor(tool, value, context, consent.doubt),
    preview: preview.text,
  };
}

function answererOf({ answeredBy }: NamedTool): OpenCall["answeredBy"] {
  return answeredBy?.kind ?? "tool";
}

type Consent =
  | { kind: "free" }
  | { kind: "ask"; doubt?: string }
  | { kind: "refuse"; result: ReturnType<typeof failedResult> };

async function needsConsent(tool: NamedTool, value: unknown, context: ToolContext): Promise<Consent> {
  // Secure by default: a tool that does not say whether it needs approval needs it.
  const { needsApproval = true } = tool;
  try {
    const answer = typeof needsApproval === "function" ? await needsApproval(value, context) : needsApproval;
    // Only a clear no spares the question: a rule that answers nothing has not decided.
    return answer === false ? { kind: "free" } : { kind: "ask" };
  } catch (error) {
    if (error instanceof BlockedError) return { kind: "refuse", result: blocked(tool, error) };
    if (error instanceof ToolError) return { kind: "refuse", result: resultOfError(error) };
    return { kind: "ask", doubt: error instanceof Error ? error.message : String(error) };
  }
}

function blocked({ name }: NamedTool, { reason }: BlockedError): ReturnType<typeof failedResult> {
  return failedResult(`${name} is blocked by policy: ${reason}`, {
    code: "BLOCKED",
    suggestion: "Nobody can approve this. Find another way, or say that it cannot be done.",
  });
}

function isRemembered(desk: ToolExecutionContext, tool: NamedTool, args: unknown, remembered: Remembered): boolean {
  const wanted = canonicalJson(args);
  return remembered.some((known) => desk.find(known.tool) === tool && canonicalJson(known.args) === wanted);
}

type Preview = { kind: "shown"; text: string | undefined } | Extract<Consent, { kind: "refuse" }>;

/** What cannot work is not asked for; what merely cannot be shown is. */
async function previewOf(tool: NamedTool, value: unknown, context: ToolContext): Promise<Preview> {
  try {
    return { kind: "shown", text: await tool.preview?.(value, context) };
  } catch (error) {
    if (error instanceof ToolError) return { kind: "refuse", result: resultOfError(error) };
    return { kind: "shown", text: undefined };
  }
}

function reasonFor(tool: NamedTool, value: unknown, { run }: CallContext, doubt: string | undefined): string {
  const reason = ownReason(tool, value) ?? `${run.worker} wants to call ${tool.name}.`;
  return doubt === undefined ? reason : `${reason} Its own rule for approval failed: ${doubt}`;
}

function ownReason(tool: NamedTool, value: unknown): string | undefined {
  try {
    return tool.approvalReason?.(value);
  } catch {
    return undefined;
  }
}
