import { type NewEffect, type RunRow, readable, requireRun, type Store } from "./store/store.ts";

/** Returns effects that post every open approval and question of a tree again, because the previous posts are lost. */
export async function reopenRequests(store: Store, rootId: string): Promise<NewEffect[]> {
  const approvals = (await store.approvalsOf(rootId)).filter(({ status }) => status === "pending");
  const questions = (await withDescendants(store, await requireRun(store, rootId))).flatMap(({ id, snapshot }) =>
    snapshot.context.openCalls
      .filter(({ answeredBy, status }) => answeredBy === "person" && status === "running")
      .map(({ callId }) => ({ runId: id, callId })),
  );
  const suffix = `again/${Date.now()}`;
  return [
    ...approvals.map(({ id, runId }): NewEffect => {
      const request = { kind: "approval.post" as const, approvalId: id };
      return { key: `${runId}/${id}/${suffix}`, runId, queue: "thread", request };
    }),
    ...questions.map(({ runId, callId }): NewEffect => {
      const request = { kind: "question.post" as const, callId };
      return { key: `${runId}/${callId}/${suffix}`, runId, queue: "thread", request };
    }),
  ];
}

async function withDescendants(store: Store, run: RunRow): Promise<RunRow[]> {
  const children = (await store.childrenOf(run.id)).map(readable);
  return [run, ...(await Promise.all(children.map((child) => withDescendants(store, child)))).flat()];
}
