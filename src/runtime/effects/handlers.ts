import type { EffectRequest } from "#machines/effects.ts";
import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import { callModel } from "./call-model.ts";
import { closeApprovals } from "./close-approvals.ts";
import type { EffectServices } from "./effect-services.ts";
import { executeTool } from "./execute-tool.ts";
import { openSandbox } from "./open-sandbox.ts";
import { postApproval } from "./post-approval.ts";
import { postToolReply } from "./post-tool-reply.ts";
import { reportOutcome } from "./report-outcome.ts";
import { reviewCalls } from "./review-calls.ts";
import { invokeTool } from "./run-tool-command.ts";
import { showQuestion } from "./show-question.ts";
import { showStatus } from "./show-status.ts";
import { spawnChild } from "./spawn-child.ts";
import { stopChildren } from "./stop-children.ts";

/** What is not asked for by a run itself. */
type OtherEffect = "status.show" | "tool.invoke" | "tool.reply";

/** Who does what runs and people ask for: one handler for each kind of effect. */
export function effectHandlers(services: EffectServices): Record<EffectRequest["kind"] | OtherEffect, EffectHandler> {
  return {
    "sandbox.open": openSandbox(services),
    "model.call": callModel(services),
    "calls.review": reviewCalls(services),
    "tool.execute": executeTool(services),
    "approval.post": postApproval(services),
    "approvals.close": closeApprovals(services),
    "question.post": showQuestion(services),
    "question.close": showQuestion(services),
    "child.spawn": spawnChild(services),
    "children.stop": stopChildren(services),
    "outcome.report": reportOutcome(services),
    "status.show": showStatus(services),
    "tool.invoke": invokeTool(services),
    "tool.reply": postToolReply(services),
  };
}
