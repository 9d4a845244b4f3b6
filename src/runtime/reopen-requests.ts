import type { Snapshot } from "./apply-events.ts";
import type { NewEffect, RunRow, Store } from "./store/store.ts";

/** Returns effects that ask every open approval and question of a tree again: those who were asked are gone. */
export async function reopenRequests(store: Store, rootId: string): Promise<NewEffect[]> {
  const approvals = (await store.approvalsOf(rootId)).filter(({ status }) => status === "pending");
  const runs = await withDescendants(store, await store.findRun(rootId));
  const questions = runs.flatMap(({ spec, snapshot }) =>
    (snapshot as Snapshot).context.openCalls
      .filter(({ answeredBy, status }) => answeredBy === "person" && status === "running")
      .map(({ callId }) => ({ runId: spec.id, callId })),
  );
  const suffix = `again/${Date.now()}`;
  return [
    ...approvals.map(({ id, runId }): NewEffect => {
      const input = { approvalId: id };
      return { key: `${runId}/${id}/${suffix}`, runId, queue: "thread", kind: "approval.post", input };
    }),
    ...questions.map(({ runId, callId }): NewEffect => {
      return { key: `${runId}/${callId}/${suffix}`, runId, queue: "thread", kind: "question.post", input: { callId } };
    }),
  ];
}

async function withDescendants(store: Store, run: RunRow | undefined): Promise<RunRow[]> {
  if (!run) return [];
  const children = await store.childrenOf(run.spec.id);
  return [run, ...(await Promise.all(children.map((child) => withDescendants(store, child)))).flat()];
}
