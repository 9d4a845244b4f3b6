import { randomUUID } from "node:crypto";
import { type Approval, approvalDigest } from "#approval.ts";
import { parseCommand } from "#command.ts";
import { UserError } from "#errors.ts";
import type { OpenGitHub } from "#github.ts";
import type { Models } from "#models/models.ts";
import type { HeardPlace } from "#repository-place.ts";
import { refuseApprover } from "#repository-settings.ts";
import type { OpenCall, RunOrigin, RunSpec, RunView } from "#run.ts";
import { cleanText } from "#untrusted.ts";
import { admitWorker } from "./admit-worker.ts";
import { briefing } from "./briefing.ts";
import type { Drive } from "./drive.ts";
import type { Invocation } from "./effects/invoke-tool.ts";
import { firstState, type Snapshot, showAgain, stateName } from "./fold.ts";
import { readSettings } from "./read-settings.ts";
import { readView } from "./read-view.ts";
import type { Reach, Runs, ThreadRef } from "./runs.ts";
import { shortId } from "./short-id.ts";
import { settlePlace } from "./store/settle-place.ts";
import type { NewEffect, NewEvent, RunRow, Store } from "./store/store.ts";
import type { ToolReply } from "./tool-reply.ts";
import type { WorkerCatalog } from "./worker-catalog.ts";

export interface RunsOptions {
  store: Store;
  drive: Drive;
  catalog: WorkerCatalog;
  models: Models;
  openGitHub: OpenGitHub;
  now: () => number;
  /** How many runs one person, and all people of a repository together, may start in an hour. */
  runsPerHour: { person: number; repository: number };
}

/** How many runs `/status` tells of. */
const shownRuns = 5;

/** The door to the runtime over a store and a drive. */
export function createRuns({ store, drive, catalog, models, openGitHub, now, runsPerHour }: RunsOptions): Runs {
  let entering: Promise<unknown> = Promise.resolve();

  async function start({
    origin,
    worker: name,
    text,
    seen,
    deliveryId,
  }: Parameters<Runs["start"]>[0]): Promise<RunSpec> {
    const id = shortId(deliveryId ?? randomUUID(), 8);
    const known = await store.run(id);
    if (known) return known.spec;

    await checkRate(origin);
    const github = openGitHub(origin);
    const { worker, source, model } = await admitWorker(name, { catalog, models, github, model: models.defaultModel });
    const task = cleanText(text).text.trim();
    const found = await github.issue(origin.thread);
    if (!found) throw new UserError(`#${origin.thread} cannot be read.`);
    // What was changed between the command and now is not what the person saw.
    const issue = seen ? { ...found, title: seen.title, body: seen.body } : found;
    const about = await briefing(github, issue, seen?.at ?? new Date(now()));
    if (task === "" && issue.body.trim() === "" && !worker.allow_empty_input) {
      throw new UserError(
        `${worker.name} needs something to do: write it behind the command, or into the ${origin.isPullRequest ? "description" : "issue"}.`,
      );
    }

    const createdAt = now();
    const spec: RunSpec = {
      id,
      rootId: id,
      depth: 0,
      workerPath: worker.name,
      worker,
      workerSource: source,
      model,
      origin,
      ...(task ? { task } : {}),
      createdAt,
    };
    const events: NewEvent[] = [
      { runId: id, event: { type: "user.said", text: about, by: issue.author, trusted: false } },
      {
        runId: id,
        event: { type: "user.said", text: commandOf(origin.requestedBy, task), by: origin.requestedBy, trusted: true },
      },
    ];
    await enter(spec, () => store.ingest({ deliveryId, run: firstState(spec), events }));
    drive.wake(id);
    return spec;
  }

  /** Counting and writing are two steps: one after the other for all, so that fifty at once are not all the first. */
  function enter({ id, origin }: RunSpec, write: () => Promise<unknown>): Promise<unknown> {
    const entered = entering.then(async () => {
      if (await store.run(id)) return;
      await checkRate(origin);
      await write();
    });
    entering = entered.catch(() => undefined);
    return entered;
  }

  async function checkRate({ requestedBy, repositoryId, owner, repo }: RunOrigin): Promise<void> {
    const since = now() - 60 * 60_000;
    const [own, all] = await Promise.all([
      store.countRuns({ requestedBy, since }),
      store.countRuns(repositoryId === undefined ? { owner, repo, since } : { repositoryId, since }),
    ]);
    const isOwn = own >= runsPerHour.person;
    if (!isOwn && all < runsPerHour.repository) return;
    const [who, count] = isOwn ? [`@${requestedBy}`, own] : [`The people of ${owner}/${repo}`, all];
    throw new UserError(`${who} started ${count} runs in the last hour, which is the limit here. Try again later.`);
  }

  async function say(thread: ThreadRef, { by, via, text, deliveryId }: Parameters<Runs["say"]>[1]): Promise<boolean> {
    const live = await liveRuns(thread);
    const newest = live[0];
    if (!newest) return false;

    const question = await oldestQuestion(live);
    const words = cleanText(text).text;
    const heard: NewEvent = question
      ? { runId: question.runId, event: { type: "person.answered", callId: question.callId, text: words, by, via } }
      : { runId: newest.spec.id, event: { type: "user.said", text: `@${by} says: ${words}`, by, trusted: true, via } };
    await tell([heard], deliveryId);
    return true;
  }

  async function oldestQuestion(rows: RunRow[]): Promise<{ runId: string; callId: string } | undefined> {
    const family = (await Promise.all(rows.map(descendants))).flat();
    const questions = family.flatMap((row) =>
      openCalls(row)
        .filter(({ as, status }) => as === "person" && status === "running")
        .map(({ callId }) => ({ runId: row.spec.id, callId, updatedAt: row.updatedAt })),
    );
    return questions.sort((a, b) => a.updatedAt - b.updatedAt)[0];
  }

  async function descendants(row: RunRow): Promise<RunRow[]> {
    const children = await store.childrenOf(row.spec.id);
    return [row, ...(await Promise.all(children.map(descendants))).flat()];
  }

  async function decide(thread: ThreadRef, decision: Parameters<Runs["decide"]>[1]): Promise<Approval[]> {
    const { approve, by, via, note, remember, changedArgs, deliveryId } = decision;
    if (await isOld(deliveryId)) return [];

    const chosen = await choose(thread, decision.target);
    if (changedArgs !== undefined && chosen.length !== 1)
      throw new UserError("Changed arguments need exactly one approval: name its id.");

    const refusal = approve ? await refusalOf(thread, chosen, by) : undefined;
    if (refusal) throw new UserError(refusal);

    const decided: Approval[] = [];
    for (const approval of chosen) {
      const result = await store.decide({
        approvalId: approval.id,
        decision: approve ? "approved" : "denied",
        by,
        via,
        note: note && cleanText(note).text,
        remember,
        changed:
          changedArgs === undefined
            ? undefined
            : { args: changedArgs, digest: approvalDigest({ ...approval, args: changedArgs, preview: undefined }) },
        now: now(),
        deliveryId: deliveryId && `${deliveryId}/${approval.id}`,
      });
      if (result.kind === "decided") decided.push(result.approval);
      else if (chosen.length === 1) throw settled(approval.id, result.kind === "settled" ? result.approval : undefined);
      drive.wake(approval.runId);
    }
    if (deliveryId) await store.ingest({ deliveryId, events: [] });
    return decided;
  }

  async function isOld(deliveryId: string | undefined): Promise<boolean> {
    return deliveryId !== undefined && store.heard(deliveryId);
  }

  /** The repository may say who approves, and that nobody approves what they started. */
  async function refusalOf(thread: ThreadRef, chosen: Approval[], by: string): Promise<string | undefined> {
    const settings = await readSettings(openGitHub(thread));
    const roots = await Promise.all(chosen.map(({ rootId }) => store.run(rootId)));
    const refusals = roots.map((root) =>
      refuseApprover(settings, { by, requestedBy: root?.spec.origin.requestedBy ?? by }),
    );
    return refusals.find((refusal) => refusal !== undefined);
  }

  async function choose(thread: ThreadRef, target: string | undefined): Promise<Approval[]> {
    const all = await approvalsOf(thread);
    const pending = all.filter(({ status }) => status === "pending");
    if (target !== undefined && target !== "all") {
      const named = all.find(({ id }) => id === target.toLowerCase());
      if (!named) {
        const others = pending.length === 0 ? " Nothing here waits for one." : "";
        throw new UserError(`There is no approval ${target} in this thread.${others}`);
      }
      return [named];
    }
    if (pending.length === 0) throw new UserError("Nothing here waits for an approval.");
    if (target === undefined && pending.length > 1) throw new UserError("Which one? Several wait.");
    return pending;
  }

  async function approvalsOf(thread: ThreadRef): Promise<Approval[]> {
    const roots = await store.runsOfThread(thread);
    return (await Promise.all(roots.map(({ spec }) => store.approvalsOf(spec.id)))).flat();
  }

  async function stop(thread: ThreadRef, { by, via, deliveryId }: Parameters<Runs["stop"]>[1]): Promise<RunSpec[]> {
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
    { by, via, text, deliveryId }: Parameters<Runs["resume"]>[1],
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
                event: { type: "user.said" as const, text: `@${by} says: ${words}`, by, trusted: true, via },
              },
            ]
          : []),
        { runId: spec.id, event: { type: "run.resume", by, via } },
      ]),
      deliveryId,
    );
    return stopped.map(({ spec }) => spec);
  }

  async function cancel(thread: ThreadRef, { by, via, deliveryId }: Parameters<Runs["cancel"]>[1]): Promise<RunSpec[]> {
    if (await isOld(deliveryId)) return [];
    const live = await liveRuns(thread);
    if (live.length === 0) throw new UserError("Nothing is running here.");
    await tell(
      live.map(({ spec }) => ({ runId: spec.id, event: { type: "run.cancel", by, via } })),
      deliveryId,
    );
    return live.map(({ spec }) => spec);
  }

  async function place(heard: HeardPlace): Promise<void> {
    const before = await store.repository(heard.repositoryId);
    // First, so that one that dies in between does it when the delivery comes again.
    if (before && settlePlace(before, heard)?.isOthers) {
      const [was, is] = [`${before.owner}/${before.repo}`, `${heard.owner}/${heard.repo}`];
      await leave(
        { installationId: before.installationId, repositoryIds: [heard.repositoryId] },
        { reason: `The repository was transferred from ${was} to ${is}, where other people decide.` },
      );
    }
    await store.place(heard);
  }

  async function leave(where: Reach, { reason, deliveryId }: { reason: string; deliveryId?: string }): Promise<void> {
    if (await isOld(deliveryId)) return;
    const running = (await store.liveRuns(where)).filter((row) => stateOf(row) !== "interrupted");
    const event = { type: "run.stop" as const, by: "golem-forge", reason };
    await tell(
      running.map(({ spec }) => ({ runId: spec.id, event })),
      deliveryId,
    );
  }

  async function comeBack(where: Reach, places: readonly HeardPlace[]): Promise<void> {
    for (const heard of places) if (await store.repository(heard.repositoryId)) await place(heard);
    const live = await store.liveRuns(where);
    await store.ingest({ events: [], effects: live.flatMap(({ spec }) => showAgain(spec)) });
    for (const { spec } of live) drive.wake(spec.id);
  }

  async function invoke(
    thread: ThreadRef,
    { by, line, mayBeForeign = false, deliveryId }: Parameters<Runs["invoke"]>[1],
  ): Promise<void> {
    if (await isOld(deliveryId)) return;
    const words = cleanText(line).text.trim();
    try {
      parseCommand(words);
    } catch (error) {
      if (mayBeForeign) return;
      throw error;
    }
    const [newest] = await store.runsOfThread(thread);
    if (!newest) {
      throw new UserError("No worker was started in this thread yet, so there are no tools. Start one with /run.");
    }
    const runId = newest.spec.id;
    const callId = `by-${shortId(deliveryId ?? randomUUID(), 8)}`;
    const input: Invocation = { callId, by, line: words, mayBeForeign };
    const key = `${runId}/${callId}`;
    const effects: NewEffect[] = [{ key, runId, lane: "work", kind: "tool.invoke", input }];
    const behind = workOf(newest);
    if (behind && !mayBeForeign) {
      const said = { callId, words: { kind: "queued", by, behind } satisfies ToolReply };
      effects.push({ key: `${key}/queued`, runId, lane: "thread", kind: "tool.reply", input: said });
    }
    await store.ingest({ deliveryId, events: [], effects });
    drive.wake(runId);
  }

  async function tell(events: NewEvent[], deliveryId: string | undefined): Promise<void> {
    await store.ingest({ deliveryId, events });
    for (const { runId } of events) drive.wake(runId);
  }

  async function liveRuns(thread: ThreadRef): Promise<RunRow[]> {
    return (await store.runsOfThread(thread)).filter(({ status }) => status !== "done");
  }

  async function presence(thread: ThreadRef): Promise<"none" | "over" | "live"> {
    const rows = await store.runsOfThread(thread);
    if (rows.length === 0) return "none";
    return rows.some((row) => row.status !== "done") ? "live" : "over";
  }

  async function status(thread: ThreadRef): Promise<RunView[]> {
    const rows = (await store.runsOfThread(thread)).slice(0, shownRuns);
    const views = await Promise.all(rows.map(({ spec }) => readView(store, spec.id)));
    return views.filter((view) => view !== undefined);
  }

  return {
    start,
    say,
    decide,
    stop,
    resume,
    cancel,
    invoke,
    place,
    leave,
    comeBack,
    isFirst: (key) => store.ingest({ deliveryId: key, events: [] }),
    presence,
    status,
    pendingApprovals: async (thread) => (await approvalsOf(thread)).filter((approval) => approval.status === "pending"),
    workers: (thread) => catalog.list(openGitHub(thread)),
    view: (runId) => readView(store, runId),
  };
}

function commandOf(requestedBy: string, task: string): string {
  return task ? `@${requestedBy} asks you: ${task}` : `@${requestedBy} asks you to work on this.`;
}

function openCalls({ snapshot }: RunRow): OpenCall[] {
  return (snapshot as Snapshot).context.open;
}

function stateOf({ snapshot }: RunRow): string {
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
    default:
      return undefined;
  }
}

function settled(id: string, approval: Approval | undefined): UserError {
  switch (approval?.status) {
    case "approved":
    case "used":
      return new UserError(`${id} was approved already, by @${approval.decidedBy}.`);
    case "denied":
      return new UserError(`${id} was denied already, by @${approval.decidedBy}.`);
    case "expired":
      return new UserError(`${id} expired before anyone answered. The worker was told.`);
    case "withdrawn":
      return new UserError(`${id} is not wanted any more: its run was stopped.`);
    default:
      return new UserError(`There is no approval ${id}.`);
  }
}
