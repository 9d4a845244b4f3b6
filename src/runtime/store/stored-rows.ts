import { LRUCache } from "lru-cache";
import { z } from "zod";
import { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import { type LoggedEvent, RunEvent } from "#domain/events.ts";
import { RunOrigin, RunSpec } from "#domain/run.ts";
import { parseVersioned, UnreadableDataError } from "#domain/stored-data.ts";
import { hourMs } from "#domain/work-context.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import { effectVersion } from "#machines/effects.ts";
import { snapshotVersion, WorkerSnapshot } from "#machines/worker-snapshot.ts";
import { stateName } from "#runtime/apply-events.ts";
import { ShownRequest } from "#runtime/front-end.ts";
import { RuntimeEffect } from "#runtime/runtime-effect.ts";
import type { StoredChange } from "#sandbox/sandbox.ts";
import type { Delivery } from "./delivery-store.ts";
import {
  type Advance,
  type Backlog,
  type DailyCost,
  type DecisionResult,
  type Effect,
  type EffectProblem,
  type EffectQueue,
  type Post,
  type RunCommands,
  type RunStatus,
  restoredPost,
  type StoredRun,
} from "./store.ts";

// The JSON that both databases store, and the rows that both select. Everything is parsed when it is read.

/** Of earlier schemas, columns have other names, and the states of runs cannot be read. */
const oldestSchema = 3;

/** Throws a UserError if this release cannot read a database of this schema, by its version. That of an empty one is 0. */
export function assertReadableSchema(database: string, version: number, newest: number): void {
  if (version > newest) {
    throw new UserError(
      `The database ${database} was written by a newer version of Golem Forge (schema ${version}; this one supports up to ${newest}). Install that version again, or restore an older backup.`,
    );
  }
  if (version > 0 && version < oldestSchema) {
    throw new UserError(
      `The database ${database} was written before the first release of Golem Forge (schema ${version}; this one supports ${oldestSchema} to ${newest}). Start with a new database.`,
    );
  }
}

/** Returns the statements that mark a restored database: what it has not done yet may have been done after the backup. */
export function restoredMarks(schema: string, now: number): string {
  return `update ${schema}.effects set attempts = 1 where attempts = 0;
    update ${schema}.pending_deliveries set attempts = 1 where attempts = 0;
    insert into ${schema}.posts (name, comment_id, updated_at) values ('${restoredPost.name}', 0, ${now + restoredPost.forMs})
      on conflict (name) do update set updated_at = excluded.updated_at`;
}

/** The number of deliveries that one transaction removes, so that others do not wait for long. */
export const maxRemovedDeliveries = 500;

/**
 * Selects the root of a tree that ended before a time and has no effects left, and one of its children whose log was not
 * removed. The arguments are the placeholders of the time and of the root.
 */
export const expiredRun = {
  root: (endedBefore: string) => `select id from runs as root
    where parent_id is null and status = 'done' and log_removed_at is null and updated_at < ${endedBefore}
      and not exists (select 1 from effects where run_id = root.id)
      and not exists (select 1 from runs as child where child.root_id = root.id and child.parent_id is not null
        and (child.status <> 'done' or exists (select 1 from effects where run_id = child.id)))
    order by updated_at limit 1`,
  child: (rootId: string) =>
    `select id from runs where root_id = ${rootId} and parent_id is not null and log_removed_at is null limit 1`,
};

/** The delay before unreadable data is tried again: a newer release may be running by then. */
export const unreadableRetryMs = 10 * 60_000;

/** The format of stored events, specs, approvals and decisions. Raise it when one of them changes its meaning. */
const recordVersion = 1;

/** Returns the JSON of a record, stamped with the format version. */
export function serializeRecord(record: RunEvent | RunSpec | Approval | DecisionResult | EffectProblem): string {
  return JSON.stringify({ version: recordVersion, ...record });
}

export function serializeRequest({ kind, ...input }: RuntimeEffect): { kind: string; input: string } {
  return { kind, input: JSON.stringify({ version: effectVersion, ...input }) };
}

/** The columns of a run, with the current name and installation of its repository. */
export const RunColumns = z.object({
  id: z.string(),
  root_id: z.string(),
  status: z.string(),
  snapshot: z.string(),
  version: z.number(),
  change_sets: z.number(),
  updated_at: z.number(),
  spec: z.string(),
  repository_id: z.number().nullable(),
  installation_id: z.number().nullable(),
  owner: z.string().nullable(),
  repo: z.string().nullable(),
  log_removed_at: z.number().nullable(),
});
type RunColumns = z.infer<typeof RunColumns>;

const Status = z.enum(["active", "waiting", "done"]) satisfies z.ZodType<RunStatus>;

/** Reads a run. One that cannot be read is returned as an unreadable run. */
export function readRun(row: RunColumns): StoredRun {
  const { id, root_id: rootId, updated_at: updatedAt } = row;
  return readOr(
    (): StoredRun => ({
      id,
      rootId,
      status: parseVersioned(Status, row.status, { version: recordVersion, name: `The status of run ${id}` }),
      updatedAt,
      spec: withLocation(parseSpec(row), row),
      snapshot: readSnapshot(row),
      version: row.version,
      changeSets: row.change_sets,
      ...(row.log_removed_at !== null && { logRemovedAt: row.log_removed_at }),
    }),
    (unreadable) => {
      const status = Status.safeParse(row.status).data ?? "waiting";
      return { id, rootId, status, updatedAt, unreadable, displaySpec: readDisplaySpec(row) };
    },
  );
}

/** Snapshots by their JSON. A step begins with the snapshot that the step before it stored, mostly in this process. */
const knownSnapshots = new LRUCache<string, WorkerSnapshot>({ max: 500 });

export function serializeSnapshot(snapshot: WorkerSnapshot): string {
  const text = JSON.stringify(snapshot);
  knownSnapshots.set(text, snapshot);
  return text;
}

function readSnapshot({ id, snapshot: text }: RunColumns): WorkerSnapshot {
  const known = knownSnapshots.get(text);
  if (known) return known;
  const data = parseJson(text, `The state of run ${id}`);
  return parseVersioned(WorkerSnapshot, data, { version: snapshotVersion, name: "The state of the run" });
}

/** Specs by their JSON. A run is read often, and its spec, which is the largest part, never changes. */
const parsedSpecs = new LRUCache<string, RunSpec>({ max: 500 });

function parseSpec({ id, spec: text }: RunColumns): RunSpec {
  const known = parsedSpecs.get(text);
  if (known) return known;
  const spec = parseRecord(RunSpec, text, `The definition of run ${id}`);
  parsedSpecs.set(text, spec);
  return spec;
}

function withLocation(
  spec: RunSpec,
  { repository_id: repositoryId, installation_id: installationId, owner, repo }: RunColumns,
): RunSpec {
  if (repositoryId === null || installationId === null || owner === null || repo === null) return spec;
  return { ...spec, origin: { ...spec.origin, repositoryId, installationId, owner, repo } };
}

/** The parts of a spec that are needed to show a run. */
const DisplaySpec = z.object({
  ...RunSpec.pick({ id: true, rootId: true, parentId: true, workerPath: true, depth: true, createdAt: true }).shape,
  origin: RunOrigin,
});

function readDisplaySpec(row: RunColumns): RunSpec | undefined {
  return ifReadable(() => {
    const data = parseJson(row.spec, "The definition of the run");
    const whole = RunSpec.safeParse(data);
    if (whole.success) return withLocation(whole.data, row);

    const parts = DisplaySpec.safeParse(data);
    if (!parts.success) return undefined;
    const name = parts.data.workerPath.split(" -> ").at(-1) ?? "";
    const worker = WorkerDefinition.parse({ name, instructions: "" });
    return withLocation({ ...parts.data, worker, workerSource: "repository", model: "unknown" }, row);
  });
}

/** Returns undefined for data that this release cannot read. */
export function ifReadable<Value>(read: () => Value): Value | undefined {
  return readOr(read, () => undefined);
}

/** Returns what `otherwise` makes of the error if this release cannot read the data. */
export function readOr<Value, Other>(
  read: () => Value,
  otherwise: (error: UnreadableDataError) => Other,
): Value | Other {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnreadableDataError) return otherwise(error);
    throw error;
  }
}

export const EventColumns = z.object({ id: z.number(), at: z.number(), event: z.string() });

export function readEvent(runId: string, { id, at, event }: z.infer<typeof EventColumns>): LoggedEvent {
  return { id, runId, at, event: parseRecord(RunEvent, event, `Event ${id}`) };
}

/** A text in every event that stops, resumes or ends a run, and in few others. */
export const commandText = '"type":"run.';

export function readCommands(runId: string, rows: readonly z.infer<typeof EventColumns>[]): RunCommands {
  const commands: RunCommands = { events: [], unreadable: undefined };
  for (const row of rows) {
    readOr(
      () => {
        const logged = readEvent(runId, row);
        if (logged.event.type.startsWith("run.")) commands.events.push(logged);
      },
      (unreadable) => Object.assign(commands, { events: [], unreadable }),
    );
  }
  return commands;
}

export const EffectColumns = z.object({
  key: z.string(),
  kind: z.string(),
  input: z.string(),
  due_at: z.number(),
  attempts: z.number(),
});

export function readEffect(
  row: z.infer<typeof EffectColumns>,
  { runId, queue }: { runId: string; queue: EffectQueue },
): Effect {
  return {
    key: row.key,
    runId,
    queue,
    request: readRequest(row),
    dueAt: row.due_at,
    attempts: row.attempts,
  };
}

/** Requests by their kind and JSON, of this many characters in total. Most have no fields, and are the same in every run. */
const parsedRequests = new LRUCache<string, RuntimeEffect>({
  maxSize: 100_000,
  sizeCalculation: (_, { length }) => length,
});

function readRequest({ key, kind, input }: { key: string; kind: string; input: string }): RuntimeEffect {
  const known = parsedRequests.get(kind + input);
  if (known) return known;
  const name = `The stored effect ${kind}`;
  const stored = parseJson(input, `The effect ${key}`);
  const { version, ...fields } = parseVersioned(StoredInput, stored, { version: effectVersion, name });
  const request = parseVersioned(RuntimeEffect, { kind, ...fields }, { version, name });
  parsedRequests.set(kind + input, request);
  return request;
}

const StoredInput = z.looseObject({ version: z.number().int().positive() });

/** The next effect of a queue, with the reason that it is not performed. */
export const NextEffectColumns = EffectColumns.pick({ key: true, kind: true, input: true }).extend({
  problem: z.string().nullable(),
});

const Problem = z.object({
  kind: z.enum(["unreadable", "postponed"]),
  reason: z.string(),
}) satisfies z.ZodType<EffectProblem>;

export function readProblem(row: z.infer<typeof NextEffectColumns>): EffectProblem | undefined {
  return readOr(
    () => {
      readRequest(row);
      return row.problem === null ? undefined : parseRecord(Problem, row.problem, `The problem of effect ${row.key}`);
    },
    ({ message }) => ({ kind: "unreadable", reason: message }) as const,
  );
}

export const ApprovalColumns = z.object({ id: z.string(), status: z.string(), approval: z.string() });

/** Reads an approval. Its status comes from the column. */
export function readApproval({ id, status, approval }: z.infer<typeof ApprovalColumns>): Approval {
  const name = `Approval ${id}`;
  return {
    ...parseRecord(Approval, approval, name),
    status: parseVersioned(Approval.shape.status, status, { version: recordVersion, name: `${name}, its status` }),
  };
}

const StoredDecision = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("decided"), approval: Approval }),
  z.object({ kind: z.literal("recorded"), approval: Approval }),
  z.object({ kind: z.literal("revoked"), approval: Approval }),
  z.object({ kind: z.literal("changed"), approval: Approval }),
  z.object({ kind: z.literal("settled"), approval: Approval }),
  z.object({ kind: z.literal("unknown") }),
]);

export function readDecision(text: string, deliveryId: string): DecisionResult {
  return parseRecord(StoredDecision, text, `The decision of delivery ${deliveryId}`);
}

export const LedgerColumns = z.object({ number: z.number(), hash: z.string(), entry: z.string() });

export const ChangeColumns = z.object({
  path: z.string(),
  mode: z.string(),
  content: z.instanceof(Uint8Array).nullable(),
});

const Mode = z.enum(["100644", "100755", "120000", "160000", "scratch"]) satisfies z.ZodType<StoredChange["mode"]>;

export function readChange({ path, mode, content }: z.infer<typeof ChangeColumns>): StoredChange {
  return {
    path,
    mode: parseVersioned(Mode, mode, { version: recordVersion, name: `The stored mode of ${path}` }),
    // The driver's buffers are views of larger ones.
    content: content === null ? undefined : new Uint8Array(content),
  };
}

export const DeliveryColumns = z.object({
  key: z.string(),
  queue: z.string(),
  content: z.string(),
  received_at: z.number(),
  attempts: z.number(),
  failures: z.number(),
});

export function readDelivery(row: z.infer<typeof DeliveryColumns>): Delivery {
  const { key, queue, received_at: receivedAt, attempts, failures } = row;
  return { key, queue, content: parseJson(row.content, `Delivery ${key}`), receivedAt, attempts, failures };
}

export const TimerColumns = z.object({
  runId: z.string(),
  timer: z.enum(["retry", "deadline"]),
  dueAt: z.number(),
});

export const PostColumns = z.object({ commentId: z.number(), updatedAt: z.number(), shown: z.string().nullable() });

export function readPost({ shown, ...post }: z.infer<typeof PostColumns>, name: string): Post {
  return { ...post, ...(shown !== null && { shown: ShownRequest.parse(parseJson(shown, `The post ${name}`)) }) };
}

export const LocationColumns = z.object({
  repositoryId: z.number(),
  installationId: z.number(),
  ownerId: z.number(),
  owner: z.string(),
  repo: z.string(),
  since: z.number(),
});

const hoursPerDay = 24;

export const DailyCostColumns = z.object({
  /** Days since 1970. */
  day: z.number(),
  worker: z.string(),
  repository_id: z.number().nullable(),
  installation_id: z.number(),
  owner: z.string(),
  repo: z.string(),
  runs: z.number(),
  model_calls: z.number(),
  input_tokens: z.number(),
  output_tokens: z.number(),
  cached_input_tokens: z.number(),
  cost: z.number(),
});

/** Reads the rows: newest day first, then largest cost. */
export function readDailyCosts(rows: readonly z.infer<typeof DailyCostColumns>[]): DailyCost[] {
  return rows
    .map(readDailyCost)
    .sort((a, b) => b.day.localeCompare(a.day) || b.cost - a.cost || a.worker.localeCompare(b.worker));
}

function readDailyCost(row: z.infer<typeof DailyCostColumns>): DailyCost {
  const { installation_id: installationId, owner, repo, worker, runs, cost } = row;
  return {
    day: new Date(row.day * hoursPerDay * hourMs).toISOString().slice(0, 10),
    repository: { ...(row.repository_id !== null && { repositoryId: row.repository_id }), installationId, owner, repo },
    worker,
    runs,
    modelCalls: row.model_calls,
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
    cachedInputTokens: row.cached_input_tokens,
    cost,
  };
}

/** Returns the hour since 1970 of a time. */
export function hourOf(time: number): number {
  return Math.floor(time / hourMs);
}

/** Returns the range of hours since 1970 for these days: `to` is the first hour after the last day. */
export function hoursOf(days: { from: string; to: string }): { from: number; to: number } {
  const startOf = (day: string) => hourOf(Date.parse(`${day}T00:00:00Z`));
  return { from: startOf(days.from), to: startOf(days.to) + hoursPerDay };
}

/** Returns the state under which a run that has not ended is counted. */
export function countedState({ status, snapshot }: Pick<Advance, "status" | "snapshot">): string {
  return status === "waiting" ? stateName(snapshot) : "working";
}

export const BacklogColumns = {
  run: z.object({ state: z.string(), count: z.number() }),
  effects: z.object({
    queue: z.string(),
    waiting: z.number(),
    performing: z.number(),
    postponed: z.number(),
    oldest: z.number().nullable(),
  }),
  deliveries: z.object({ waiting: z.number(), oldest: z.number().nullable() }),
};

export function readBacklogRows({
  runs,
  effects,
  deliveries,
  pendingApprovals,
}: {
  runs: z.infer<typeof BacklogColumns.run>[];
  effects: z.infer<typeof BacklogColumns.effects>[];
  deliveries: z.infer<typeof BacklogColumns.deliveries> | undefined;
  pendingApprovals: number;
}): Backlog {
  const { waiting = 0, oldest: oldestAt = null } = deliveries ?? {};
  return {
    runs,
    effects: effects.map(({ oldest, ...counts }) => ({
      ...counts,
      ...(oldest !== null && { oldestWaitingAt: oldest }),
    })),
    deliveries: { waiting, ...(oldestAt !== null && { oldestAt }) },
    pendingApprovals,
  };
}

function parseRecord<Schema extends z.ZodType>(schema: Schema, text: string, name: string): z.output<Schema> {
  return parseVersioned(schema, parseJson(text, name), { version: recordVersion, name });
}

function parseJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UnreadableDataError(`${name} is not valid JSON.`, { cause: error });
  }
}
