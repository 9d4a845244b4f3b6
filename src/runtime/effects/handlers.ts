import type { EffectRequest } from "#machines/effects.ts";
import type { EffectHandler } from "#runtime/drive.ts";
import { callModel } from "#runtime/effects/call-model.ts";
import { cancelChildren } from "#runtime/effects/cancel-children.ts";
import type { EffectServices } from "#runtime/effects/effect-services.ts";
import { executeTool } from "#runtime/effects/execute-tool.ts";
import { openBase } from "#runtime/effects/open-base.ts";
import { postApproval } from "#runtime/effects/post-approval.ts";
import { postQuestion } from "#runtime/effects/post-question.ts";
import { reportOutcome } from "#runtime/effects/report-outcome.ts";
import { reviewCalls } from "#runtime/effects/review-calls.ts";
import { showStatus } from "#runtime/effects/show-status.ts";
import { startChild } from "#runtime/effects/start-child.ts";

/** Who does what a run asks for: one handler for each kind of effect. */
export function effectHandlers(
  services: EffectServices,
): Record<EffectRequest["kind"] | "status.show", EffectHandler> {
  return {
    "sandbox.open": openBase(services),
    "model.call": callModel(services),
    "calls.review": reviewCalls(services),
    "tool.execute": executeTool(services),
    "approval.post": postApproval(services),
    "question.post": postQuestion(services),
    "child.start": startChild(services),
    "children.cancel": cancelChildren(services),
    "outcome.report": reportOutcome(services),
    "status.show": showStatus(services),
  };
}
