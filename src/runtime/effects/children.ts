import { z } from "zod";
import { ToolError, UserError } from "#domain/errors.ts";
import type { Attachment } from "#domain/events.ts";
import { type RunSpec, shortId } from "#domain/run.ts";
import { AttachmentPolicy, type Limits, type WorkerDefinition } from "#domain/worker.ts";
import { initialRun } from "#runtime/apply-events.ts";
import { chosenModel, openCallOf } from "#runtime/read-log.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import type { ActiveRun } from "#runtime/scheduler/active-run.ts";
import { admitWorker } from "#runtime/start/admit-worker.ts";
import { checkAttachments, detectMediaType } from "#runtime/start/attachments.ts";
import { type RunRow, readable, requireRun } from "#runtime/store/store.ts";
import { workerBinding } from "#toolsets/workers/workers-toolset.ts";
import { checkApproval, effectChanged, NotRunError, postponeDuringOutage } from "./check-approval.ts";
import type { EffectHandler, EffectServices } from "./effect-handler.ts";

/** The limit for all files attached to a call, under any worker's policy: they are stored with the run. */
const maxAttachmentBytes = 20 * 1024 ** 2;

type SpawnServices = Pick<EffectServices, "store" | "catalog" | "models" | "now" | "policy">;

/** Spawns the child run that answers a worker call. It gets a share of its parent's remaining budget. */
export function spawnChild(services: SpawnServices): EffectHandler<EffectOf<"child.spawn">> {
  return {
    maxAttempts: 4,
    async perform({ key, runId, request }, run, signal) {
      try {
        const start = () => spawn(services, run, { ...request, effectKey: key }, signal);
        return await postponeDuringOutage(start, { now: services.now, signal });
      } catch (error) {
        if (!(error instanceof UserError || error instanceof ToolError)) throw error;
        const { approvalId } = request;
        const isRefused = approvalId !== undefined && error instanceof NotRunError;
        const execution = isRefused && { approvalId, outcome: "refused" as const, reason: error.message };
        return { ...refused(runId, request.callId, error.message), ...(execution && { execution }) };
      }
    },
    onFailure: async ({ runId, request }) => refused(runId, request.callId, "The worker could not be started."),
  };
}

async function spawn(
  { store, catalog, models, policy, now }: SpawnServices,
  run: ActiveRun,
  { callId, approvalId, effectKey }: EffectOf<"child.spawn"> & { effectKey: string },
  signal: AbortSignal,
): Promise<EffectResult> {
  const { spec, repository } = run;
  const log = await run.log();
  const { call, step } = openCallOf(log, callId);
  const granted =
    approvalId && (await checkApproval({ store, now }, run, { call, step, approvalId, effectKey, signal }));
  const answeredBy = (await run.tools(signal)).find(call.tool)?.answeredBy;
  if (answeredBy?.kind !== "worker") throw new UserError(`${call.tool} does not call a worker.`);

  const [parent, root, children] = await Promise.all([
    requireRun(store, spec.id),
    requireRun(store, spec.rootId),
    store.childrenOf(spec.id),
  ]);
  const id = `${spec.rootId}-${shortId(`${spec.id}/${step}/${callId}`, 6)}`;
  const siblings = children.filter((child) => child.id !== id).map(readable);
  checkDelegation(spec, answeredBy.worker, siblings.length);

  const { worker, source, model, digest } = await admitWorker(answeredBy.worker, {
    catalog,
    models,
    repository,
    model: chosenModel(log) ?? spec.model,
    policy,
    isFork: spec.isFork,
  });
  const approvedWorker = granted ? granted.approved?.bindings?.[workerBinding] : undefined;
  if (approvedWorker !== undefined && approvedWorker !== digest) throw effectChanged();
  const args = granted ? granted.args : call.args;
  const attachments = await attachFiles(run, {
    worker,
    paths: WorkerCall.safeParse(args).data?.attachments ?? [],
    signal,
  });
  const child = childSpec(parent, { id, callId, worker, source, model, now: now(), siblings, root: root.spec });
  const event = {
    type: "message.received" as const,
    kind: "prompt" as const,
    text: taskOf(args),
    by: spec.worker.name,
    ...(attachments.length > 0 && { attachments }),
  };
  return {
    run: initialRun(child),
    events: [{ runId: id, event, dedupe: `${id}/task` }],
    ...(approvalId !== undefined && { execution: { approvalId, outcome: "executed" } }),
  };
}

/** Reads the attached files from the caller's tree. The called worker's policy decides which files it accepts. */
async function attachFiles(
  run: ActiveRun,
  { worker, paths, signal }: { worker: WorkerDefinition; paths: readonly string[]; signal: AbortSignal },
): Promise<Attachment[]> {
  if (paths.length === 0) return [];
  const workspace = await run.workspace(signal);
  const files = await Promise.all(
    paths.map(async (path) => {
      const bytes = Buffer.from(await workspace.readFile(path));
      const mediaType = detectMediaType(path, bytes);
      if (mediaType) return { name: path, mediaType, bytes };
      throw new UserError(`${path} is not an image, a PDF or a text file, so it cannot be attached.`);
    }),
  );
  const policy = worker.attachment_policy ?? AttachmentPolicy.parse({});
  const max_total_bytes = Math.min(policy.max_total_bytes, maxAttachmentBytes);
  return checkAttachments({ ...worker, attachment_policy: { ...policy, max_total_bytes } }, files);
}

function refused(runId: string, callId: string, reason: string): EffectResult {
  const event = {
    type: "child.finished" as const,
    callId,
    childId: "",
    outcome: { kind: "failed" as const, reason },
    usage: { inputTokens: 0, outputTokens: 0 },
  };
  return { events: [{ runId, event }] };
}

/** Cancels all children that have not ended. Each child does the same with its own. */
export function stopChildren({ store }: Pick<EffectServices, "store">): EffectHandler<EffectOf<"children.stop">> {
  return {
    maxAttempts: 12,
    async perform({ runId }, { spec }) {
      const live = (await store.childrenOf(runId)).filter(({ status }) => status !== "done");
      const event = { type: "run.cancel" as const, by: spec.worker.name };
      return { events: live.map(({ id }) => ({ runId: id, event, dedupe: `${id}/cancel` })) };
    },
    onFailure: async () => ({}),
  };
}

/** Throws a UserError if a run may not call this worker: it is one of its ancestors, too deep, or one too many. */
function checkDelegation({ worker, workerPath, depth }: RunSpec, name: string, siblings: number): void {
  const path = `${workerPath} -> ${name}`;
  const ancestors = workerPath.split(" -> ").map((ancestor) => ancestor.toLowerCase());
  if (ancestors.includes(name.toLowerCase())) {
    throw new UserError(`Circular delegation: a worker cannot call itself or one that called it: ${path}.`);
  }
  if (depth >= worker.limits.depth) {
    throw new UserError(
      `Maximum delegation depth (${worker.limits.depth}) exceeded: workers may not call each other any deeper: ${path}.`,
    );
  }
  if (siblings >= worker.limits.children) {
    throw new UserError(`${worker.name} has already started ${worker.limits.children} workers, which is its limit.`);
  }
}

interface ChildOptions {
  id: string;
  callId: string;
  worker: WorkerDefinition;
  source: RunSpec["workerSource"];
  model: string;
  now: number;
  /** Its parent's other children. */
  siblings: readonly RunRow[];
  root: RunSpec;
}

/** Returns a child's spec with its share of the remaining budget. Throws a UserError if that is too small. */
export function childSpec(
  parent: RunRow,
  { id, callId, worker, source, model, now, siblings, root }: ChildOptions,
): RunSpec {
  const { spec } = parent;
  const share = shareOf(parent, siblings);
  checkShare(worker, share, root);
  return {
    ...spec,
    id,
    parentId: spec.id,
    parentCallId: callId,
    depth: spec.depth + 1,
    workerPath: `${spec.workerPath} -> ${worker.name}`,
    worker: { ...worker, mode: "single", limits: narrowLimits(worker.limits, parent, share) },
    workerSource: source,
    model,
    parentChanges: parent.changeSets,
    createdAt: now,
  };
}

type Share = Pick<Limits, "tokens" | "cost">;

/** Divides the remaining budget equally among the open worker calls, without the shares that were already assigned to runs. */
function shareOf({ snapshot }: RunRow, siblings: readonly RunRow[]): Share {
  const { openCalls, tokens, cost, limits } = snapshot.context;
  const calls = openCalls.filter(({ answeredBy }) => answeredBy === "worker").map(({ callId }) => callId);
  const running = siblings.filter(({ spec: { parentCallId = "" } }) => calls.includes(parentCallId));
  const parts = Math.max(1, calls.length - running.length);
  const allotted = (kind: keyof Share) => running.reduce((sum, { spec }) => sum + spec.worker.limits[kind], 0);
  return {
    tokens: Math.floor((limits.tokens - tokens - allotted("tokens")) / parts),
    cost: (limits.cost - cost - allotted("cost")) / parts,
  };
}

/** The smallest share of the root's limit. A run can exceed its limit by one model call, so their number is bounded. */
const minShare = 0.01;

function checkShare({ name, limits }: WorkerDefinition, { tokens, cost }: Share, { worker }: RunSpec): void {
  const needs = (kind: keyof Share) => Math.min(limits[kind], worker.limits[kind] * minShare);
  if (tokens >= needs("tokens") && cost >= needs("cost")) return;
  throw new UserError(`The remaining budget of this run is too small to start ${name}. Do the task yourself.`);
}

/** Limits a child to its share of its parent's remaining budget, and to its own limits. */
function narrowLimits(own: Limits, { spec, snapshot }: RunRow, share: Share): Limits {
  const { limits } = spec.worker;
  return {
    steps: own.steps,
    tokens: Math.min(own.tokens, share.tokens),
    cost: Math.min(own.cost, share.cost),
    minutes: Math.max(1, Math.min(own.minutes, limits.minutes - snapshot.workedMs / 60_000)),
    depth: Math.min(own.depth, limits.depth),
    children: own.children,
    ci_repairs: own.ci_repairs,
  };
}

/** The arguments of a worker call as the model wrote them. Accepts other common names for `task` and `context`. */
const WorkerCall = z.object({
  task: z.string().nullish(),
  input: z.string().nullish(),
  prompt: z.string().nullish(),
  message: z.string().nullish(),
  context: z.string().nullish(),
  instructions: z.string().nullish(),
  attachments: z.union([z.array(z.string()), z.string().transform((path) => [path])]).nullish(),
});

/** Returns the task of a worker call for the child's first message. */
export function taskOf(args: unknown): string {
  const { task, input, prompt, message, context, instructions } = WorkerCall.safeParse(args).data ?? {};
  return [task ?? input ?? prompt ?? message, context ?? instructions].filter(Boolean).join("\n\n");
}
