import { callModel } from "./call-model.ts";
import { spawnChild, stopChildren } from "./children.ts";
import type { EffectHandlers, EffectServices } from "./effect-handler.ts";
import { openRunSandbox } from "./open-run-sandbox.ts";
import { invokeTool, runToolCommand } from "./person-calls.ts";
import { closeApprovals, postApproval, postQuestion } from "./post-requests.ts";
import { postAnswer, postBudget, postChanges, postToolReply, reportOutcome, showStatus } from "./post-to-thread.ts";
import { executeTool, reviewCalls } from "./tool-calls.ts";

export function effectHandlers(services: EffectServices): EffectHandlers {
  return {
    "sandbox.open": openRunSandbox(services),
    "model.call": callModel(services),
    "calls.review": reviewCalls(services),
    "tool.execute": executeTool(services),
    "approval.post": postApproval(services),
    "approvals.close": closeApprovals(services),
    "question.post": postQuestion(services),
    "question.close": postQuestion(services),
    "child.spawn": spawnChild(services),
    "children.stop": stopChildren(services),
    "answer.post": postAnswer(services),
    "budget.post": postBudget(services),
    "outcome.report": reportOutcome(services),
    "status.show": showStatus(services),
    "command.run": runToolCommand(services),
    "tool.invoke": invokeTool(services),
    "tool.reply": postToolReply(services),
    "changes.show": postChanges(services),
  };
}
