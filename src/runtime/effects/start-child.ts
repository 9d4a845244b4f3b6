import { UserError } from "#errors.ts";
import type { RunSpec } from "#run.ts";
import { admitWorker } from "#runtime/admit-worker.ts";
import type { Desk } from "#runtime/desk.ts";
import type { Done, EffectHandler } from "#runtime/drive.ts";
import { firstState, type Snapshot } from "#runtime/fold.ts";
import { openCallOf } from "#runtime/read-log.ts";
import { shortId } from "#runtime/short-id.ts";
import type { RunRow } from "#runtime/store/store.ts";
import type { Limits } from "#worker.ts";
import { checkApproval } from "./check-approval.ts";
import type { EffectServices } from "./effect-services.ts";

/** Makes the run that answers a worker call: a run of its own, with no more than its parent has left. */
export function startChild(services: EffectServices): EffectHandler {
  return {
    attempts: 4,
    async perform(effect, desk, signal) {
      const { callId, approvalId } = effect.input as { callId: string; approvalId?: string };
      try {
        return await start(services, desk, { callId, approvalId, signal });
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        return refused(desk, callId, error.message);
      }
    },
    giveUp: async (effect, desk) =>
      refused(desk, (effect.input as { callId: string }).callId, "The worker could not be started."),
  };
}

async function start(
  { store, catalog, models, now }: EffectServices,
  desk: Desk,
  { callId, approvalId, signal }: { callId: string; approvalId: string | undefined; signal: AbortSignal },
): Promise<Done> {
  const { spec, github } = desk;
  const { call, step } = openCallOf(await desk.log(), callId);
  const granted = approvalId && (await checkApproval(store, desk, { call, step, approvalId, signal }));
  const answeredBy = (await desk.tools(signal)).find(call.tool)?.answeredBy;
  if (answeredBy?.kind !== "worker") throw new UserError(`${call.tool} does not call a worker.`);

  const [row, siblings] = await Promise.all([store.run(spec.id), store.childrenOf(spec.id)]);
  if (!row) throw new Error(`There is no run ${spec.id}`);
  const id = `${spec.rootId}-${shortId(`${spec.id}/${step}/${callId}`, 6)}`;
  const others = siblings.filter((sibling) => sibling.spec.id !== id);
  checkDelegation(spec, answeredBy.worker, others.length);

  const options = { catalog, models, github, model: spec.model };
  const { worker, source, model } = await admitWorker(answeredBy.worker, options);

  const child: RunSpec = {
    ...spec,
    id,
    parentId: spec.id,
    parentCallId: callId,
    depth: spec.depth + 1,
    workerPath: `${spec.workerPath} -> ${worker.name}`,
    worker: { ...worker, mode: "single", limits: narrowed(worker.limits, row) },
    workerSource: source,
    model,
    parentChanges: row.changeSets,
    createdAt: now(),
  };
  const event = {
    type: "user.said" as const,
    text: taskOf(granted ? granted.args : call.args),
    by: spec.worker.name,
    trusted: true,
  };
  return { run: firstState(child), events: [{ runId: id, event, dedupe: `${id}/task` }], usedApproval: approvalId };
}

function checkDelegation({ worker, workerPath, depth }: RunSpec, name: string, siblings: number): void {
  const path = `${workerPath} -> ${name}`;
  const ancestors = workerPath.split(" -> ").map((ancestor) => ancestor.toLowerCase());
  if (ancestors.includes(name.toLowerCase()))
    throw new UserError(`A worker cannot call itself or one that called it: ${path}.`);
  if (depth >= worker.limits.depth) throw new UserError(`Workers may not call each other any deeper: ${path}.`);
  if (siblings >= worker.limits.children) {
    throw new UserError(`${worker.name} may start ${worker.limits.children} workers, and has.`);
  }
}

/** The budget is the tree's: a child may use what its parent has left, and no more than its own file says. */
function narrowed(own: Limits, { spec, snapshot }: RunRow): Limits {
  const { context, workedMs } = snapshot as Snapshot;
  const { limits } = spec.worker;
  return {
    steps: own.steps,
    tokens: Math.max(1, Math.min(own.tokens, limits.tokens - context.tokens)),
    cost: Math.max(0.01, Math.min(own.cost, limits.cost - context.cost)),
    minutes: Math.max(1, Math.min(own.minutes, limits.minutes - workedMs / 60_000)),
    depth: Math.min(own.depth, limits.depth),
    children: own.children,
  };
}

function taskOf(args: unknown): string {
  const { task, context } = args as { task?: unknown; context?: unknown };
  return [task, context].filter((text) => typeof text === "string" && text !== "").join("\n\n");
}

function refused({ spec }: Desk, callId: string, reason: string): Done {
  const event = {
    type: "child.finished" as const,
    callId,
    childId: "",
    outcome: { kind: "failed" as const, reason },
    usage: { inputTokens: 0, outputTokens: 0 },
  };
  return { events: [{ runId: spec.id, event }] };
}
