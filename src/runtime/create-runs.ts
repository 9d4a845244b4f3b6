import { randomUUID } from "node:crypto";
import { UserError } from "#domain/errors.ts";
import type { ReportedLocation } from "#domain/repository-location.ts";
import type { OpenCall, RunSpec, RunState, RunView } from "#domain/run.ts";
import type { ToolReply } from "#runtime/calls/tool-reply.ts";
import type { Invocation } from "#runtime/effects/run-tool-command.ts";
import { createStartRun } from "#runtime/start/start-run.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import { readView } from "#runtime/views/read-view.ts";
import { cleanText } from "#text/untrusted.ts";
import { redisplayEffects, type Snapshot, stateName } from "./apply-events.ts";
import { createDecideApprovals } from "./decide-approvals.ts";
import type { InstallationScope, Runs, ThreadRef } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";
import { shortId } from "./short-id.ts";
import type { NewEffect, NewEvent, RunRow } from "./store/store.ts";

/** How many runs `/status` tells of. */
const shownRuns = 5;

/** The door to the runtime over a store and a scheduler. */
export function createRuns(options: RunsOptions): Runs {
  const { store, scheduler, catalog, openGitHub } = options;

  async function say(
    thread: ThreadRef,
    { by, via, text, deliveryId }: Parameters<Runs["deliverMessage"]>[1],
  ): Promise<boolean> {
    const live = await liveRuns(thread);
    const newest = live[0];
    if (!newest) return false;

    const question = await oldestQuestion(live);
    const words = cleanText(text).text;
    const heard: NewEvent = question
      ? { runId: question.runId, event: { type: "question.answered", callId: question.callId, text: words, by, via } }
      : {
          runId: newest.spec.id,
          event: { type: "message.received", kind: "comment", text: words, by, via },
        };
    await tell([heard], deliveryId);
    return true;
  }

  async function oldestQuestion(rows: RunRow[]): Promise<{ runId: string; callId: string } | undefined> {
    const family = (await Promise.all(rows.map(descendants))).flat();
    const questions = family.flatMap((row) =>
      openCalls(row)
        .filter(({ answeredBy, status }) => answeredBy === "person" && status === "running")
        .map(({ callId }) => ({ runId: row.spec.id, callId, updatedAt: row.updatedAt })),
    );
    return questions.sort((a, b) => a.updatedAt - b.updatedAt)[0];
  }

  async function descendants(row: RunRow): Promise<RunRow[]> {
    const children = await store.childrenOf(row.spec.id);
    return [row, ...(await Promise.all(children.map(descendants))).flat()];
  }

  async function isOld(deliveryId: string | undefined): Promise<boolean> {
    return deliveryId !== undefined && store.hasDelivery(deliveryId);
  }

  async function stop(
    thread: ThreadRef,
    { by, via, deliveryId }: Parameters<Runs["requestStop"]>[1],
  ): Promise<RunSpec[]> {
    if (await isOld(deliveryId)) return [];
    const running = (await liveRuns(thread)).filter((row) => stateOf(row) !== "interrupted");
    if (running.length === 0) throw new UserError("Nothing is running here.");
    await tell(
      running.map(({ spec }) => ({ runId: spec.id, event: { type: "run.stop", by, via } })),
      deliveryId,
    );
    return running.map(({ spec }) => spec);
  }

  async function resume(
    thread: ThreadRef,
    { by, via, text, deliveryId }: Parameters<Runs["requestResume"]>[1],
  ): Promise<RunSpec[]> {
    if (await isOld(deliveryId)) return [];
    const stopped = (await liveRuns(thread)).filter((row) => stateOf(row) === "interrupted");
    if (stopped.length === 0) throw new UserError("Nothing here is stopped. Start a worker with /run.");
    const words = text ? cleanText(text).text : "";
    await tell(
      stopped.flatMap(({ spec }): NewEvent[] => [
        ...(words
          ? [
              {
                runId: spec.id,
                event: { type: "message.received" as const, kind: "comment" as const, text: words, by, via },
              },
            ]
          : []),
        { runId: spec.id, event: { type: "run.resume", by, via } },
      ]),
      deliveryId,
    );
    return stopped.map(({ spec }) => spec);
  }

  async function cancel(
    thread: ThreadRef,
    { by, via, deliveryId }: Parameters<Runs["requestCancel"]>[1],
  ): Promise<RunSpec[]> {
    if (await isOld(deliveryId)) return [];
    const live = await liveRuns(thread);
    if (live.length === 0) throw new UserError("Nothing is running here.");
    await tell(
      live.map(({ spec }) => ({ runId: spec.id, event: { type: "run.cancel", by, via } })),
      deliveryId,
    );
    return live.map(({ spec }) => spec);
  }

  async function place(heard: ReportedLocation): Promise<void> {
    const before = await store.findLocation(heard.repositoryId);
    // First, so that one that dies in between does it when the delivery comes again.
    if (before && resolveLocation(before, heard)?.ownerChanged) {
      const [was, is] = [`${before.owner}/${before.repo}`, `${heard.owner}/${heard.repo}`];
      await leave(
        { installationId: before.installationId, repositoryIds: [heard.repositoryId] },
        { reason: `The repository was transferred from ${was} to ${is}, where other people decide.` },
      );
    }
    await store.saveLocation(heard);
  }

  async function leave(
    where: InstallationScope,
    { reason, deliveryId }: { reason: string; deliveryId?: string },
  ): Promise<void> {
    if (await isOld(deliveryId)) return;
    const running = (await store.liveRuns(where)).filter((row) => stateOf(row) !== "interrupted");
    const event = { type: "run.stop" as const, by: "golem-forge", reason };
    await tell(
      running.map(({ spec }) => ({ runId: spec.id, event })),
      deliveryId,
    );
  }

  async function comeBack(where: InstallationScope, places: readonly ReportedLocation[]): Promise<void> {
    for (const heard of places) if (await store.findLocation(heard.repositoryId)) await place(heard);
    const live = await store.liveRuns(where);
    await store.ingest({ events: [], effects: live.flatMap(({ spec }) => redisplayEffects(spec)) });
    for (const { spec } of live) scheduler.wake(spec.id);
  }

  async function invoke(
    thread: ThreadRef,
    { by, command, mayBeForeign = false, deliveryId }: Parameters<Runs["runToolCommand"]>[1],
  ): Promise<void> {
    if (await isOld(deliveryId)) return;
    const [newest] = await store.runsOfThread(thread);
    if (!newest) {
      throw new UserError("No worker was started in this thread yet, so there are no tools. Start one with /run.");
    }
    const runId = newest.spec.id;
    const callId = `by-${shortId(deliveryId ?? randomUUID(), 8)}`;
    const input: Invocation = { callId, by, command, mayBeForeign };
    const key = `${runId}/${callId}`;
    const effects: NewEffect[] = [{ key, runId, queue: "work", kind: "tool.invoke", input }];
    const behind = workOf(newest);
    if (behind && !mayBeForeign) {
      const said = { callId, words: { kind: "queued", by, behind } satisfies ToolReply };
      effects.push({ key: `${key}/queued`, runId, queue: "thread", kind: "tool.reply", input: said });
    }
    await store.ingest({ deliveryId, events: [], effects });
    scheduler.wake(runId);
  }

  async function tell(events: NewEvent[], deliveryId: string | undefined): Promise<void> {
    await store.ingest({ deliveryId, events });
    for (const { runId } of events) scheduler.wake(runId);
  }

  async function liveRuns(thread: ThreadRef): Promise<RunRow[]> {
    return (await store.runsOfThread(thread)).filter(({ status }) => status !== "done");
  }

  async function presence(thread: ThreadRef): Promise<"none" | "ended" | "live"> {
    const rows = await store.runsOfThread(thread);
    if (rows.length === 0) return "none";
    return rows.some((row) => row.status !== "done") ? "live" : "ended";
  }

  async function status(thread: ThreadRef): Promise<RunView[]> {
    const rows = (await store.runsOfThread(thread)).slice(0, shownRuns);
    const views = await Promise.all(rows.map(({ spec }) => readView(store, spec.id)));
    return views.filter((view) => view !== undefined);
  }

  return {
    startRun: createStartRun(options),
    ...createDecideApprovals(options),
    deliverMessage: say,
    requestStop: stop,
    requestResume: resume,
    requestCancel: cancel,
    runToolCommand: invoke,
    reportLocation: place,
    stopUnreachable: leave,
    refreshReachable: comeBack,
    recordOnce: (key) => store.ingest({ deliveryId: key, events: [] }),
    threadActivity: presence,
    status,
    listWorkers: (thread) => catalog.list(openGitHub(thread)),
    view: (runId) => readView(store, runId),
  };
}

function openCalls({ snapshot }: RunRow): OpenCall[] {
  return (snapshot as Snapshot).context.openCalls;
}

function stateOf({ snapshot }: RunRow): RunState {
  return stateName(snapshot as Snapshot);
}

/** What a run is doing that nothing else may be done beside. */
function workOf(row: RunRow): Extract<ToolReply, { kind: "queued" }>["behind"] | undefined {
  switch (stateOf(row)) {
    case "callingModel":
      return "model";
    case "executing":
      return "tool";
    case "preparing":
    case "reviewing":
      return "step";
    case "retrying":
    case "evaluatingAnswer":
    case "evaluatingCalls":
    case "checkingLimits":
    case "awaitingApproval":
    case "awaitingAnswer":
    case "awaitingChild":
    case "idle":
    case "interrupted":
    case "ended":
      return undefined;
  }
}
