import { UserError } from "#domain/errors.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import { initialRun } from "#runtime/apply-events.ts";
import type { EffectHandler, EffectResult } from "#runtime/effects/effect-handler.ts";
import { openCallOf } from "#runtime/read-log.ts";
import { shortId } from "#runtime/short-id.ts";
import { admitWorker } from "#runtime/start/admit-worker.ts";
import { checkDelegation, childSpec, taskOf } from "#runtime/start/delegate.ts";
import { checkApproval } from "./check-approval.ts";
import type { EffectServices } from "./effect-services.ts";

/** Makes the run that answers a worker call: a run of its own, with no more than its parent has left. */
export function spawnChild(services: EffectServices): EffectHandler {
  return {
    maxAttempts: 4,
    async perform(effect, desk, signal) {
      const { callId, approvalId } = effect.input as { callId: string; approvalId?: string };
      try {
        return await start(services, desk, { callId, approvalId, signal });
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        return refused(desk, callId, error.message);
      }
    },
    onFailure: async (effect, desk) =>
      refused(desk, (effect.input as { callId: string }).callId, "The worker could not be started."),
  };
}

async function start(
  { store, catalog, models, policy, now }: EffectServices,
  desk: ActiveRun,
  { callId, approvalId, signal }: { callId: string; approvalId: string | undefined; signal: AbortSignal },
): Promise<EffectResult> {
  const { spec, repository } = desk;
  const { call, step } = openCallOf(await desk.log(), callId);
  const granted = approvalId && (await checkApproval({ store, now }, desk, { call, step, approvalId, signal }));
  const answeredBy = (await desk.tools(signal)).find(call.tool)?.answeredBy;
  if (answeredBy?.kind !== "worker") throw new UserError(`${call.tool} does not call a worker.`);

  const [row, root, all] = await Promise.all([
    store.findRun(spec.id),
    store.findRun(spec.rootId),
    store.childrenOf(spec.id),
  ]);
  if (!row || !root) throw new Error(`There is no run ${spec.id}, or none above it`);
  const id = `${spec.rootId}-${shortId(`${spec.id}/${step}/${callId}`, 6)}`;
  const siblings = all.filter((sibling) => sibling.spec.id !== id);
  checkDelegation(spec, answeredBy.worker, siblings.length);

  const options = { catalog, models, repository, model: spec.model, policy };
  const { worker, source, model } = await admitWorker(answeredBy.worker, options);

  const child = childSpec(row, { id, callId, worker, source, model, now: now(), siblings, root: root.spec });
  const event = {
    type: "message.received" as const,
    kind: "prompt" as const,
    text: taskOf(granted ? granted.args : call.args),
    by: spec.worker.name,
  };
  return { run: initialRun(child), events: [{ runId: id, event, dedupe: `${id}/task` }], usedApproval: approvalId };
}

function refused({ spec }: ActiveRun, callId: string, reason: string): EffectResult {
  const event = {
    type: "child.finished" as const,
    callId,
    childId: "",
    outcome: { kind: "failed" as const, reason },
    usage: { inputTokens: 0, outputTokens: 0 },
  };
  return { events: [{ runId: spec.id, event }] };
}
