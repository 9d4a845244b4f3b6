import { randomUUID } from "node:crypto";
import { UserError } from "#domain/errors.ts";
import type { ModelCall, RunEvent } from "#domain/events.ts";
import { modelFor } from "#runtime/start/admit-worker.ts";
import { checkDelegation, childSpec, taskOf } from "#runtime/start/delegate.ts";
import type { RunRow } from "#runtime/store/store.ts";
import type { Drive } from "./drive.ts";
import { withDepth } from "./new-spec.ts";
import { findWorker } from "./read-worker.ts";
import { openSession } from "./session.ts";

type Finished = Extract<RunEvent, { type: "child.finished" }>;

/**
 * Has another worker answer a call, in the tree of its caller as far as its own policy lets it. Undefined when it was
 * interrupted. Throws a UserError when it may not or cannot be started.
 */
export async function startChild(drive: Drive, { callId, tool, args }: ModelCall): Promise<Finished | undefined> {
  const { session, signal } = drive;
  const { spec, toolbox, around, workspace } = session;
  const answeredBy = toolbox.find(tool)?.answeredBy;
  if (answeredBy?.kind !== "worker") throw new UserError(`${tool} does not call a worker.`);
  checkDelegation(spec, answeredBy.worker, drive.children.length);

  const found = await findWorker(around.catalogue, answeredBy.worker);
  const worker = withDepth(found.worker, around.maxDelegationDepth);
  const childId = `${spec.rootId}-${randomUUID().slice(0, 6)}`;
  const child = childSpec(drive.row(), {
    id: childId,
    callId,
    worker,
    source: "deployment",
    model: modelFor(worker, worker.model ?? spec.model, around.models),
    now: Date.now(),
    siblings: drive.children,
    root: around.root,
  });
  const row: RunRow = { spec: child, status: "active", snapshot: {}, version: 0, changeSets: 0, updatedAt: Date.now() };
  drive.children.push(row);

  const opened = await openSession({ spec: child, around, tree: workspace, workerDirectory: found.directory });
  const { report } = opened;
  try {
    report.worker("running", child.model, opened.toolbox.tools);
    report.trace({ type: "execution_start", workerName: worker.name, model: child.model });
    const startedAt = Date.now();
    const words: RunEvent = { type: "message.received", kind: "prompt", text: taskOf(args), by: spec.worker.name };
    const end = await drive.begin(opened, words, signal).ended;
    report.end(end, startedAt);
    if (end.outcome.kind === "interrupted") return undefined;
    const { outcome, usage, cost } = end;
    return { type: "child.finished", callId, childId, outcome, usage, ...(cost > 0 && { cost }) };
  } finally {
    await opened.close();
  }
}
