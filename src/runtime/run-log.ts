import { logFieldsOf } from "#domain/log-context.ts";
import type { RunObserver, StoredTransition } from "./run-observer.ts";

type Log = (fields: object, message: string) => void;

/** Logs the start and the end of each run, the requests for approval with their answers, and failed model calls. */
export class RunLog implements RunObserver {
  readonly #info: Log;

  constructor(info: Log) {
    this.#info = info;
  }

  transitionStored({ run, events, after }: StoredTransition): void {
    const fields = logFieldsOf(run.spec);
    const { model, origin } = run.spec;
    if (run.version === 0) this.#info({ ...fields, model, thread: origin.thread }, "The run has started.");
    for (const { event } of events) {
      if (event.type === "model.failed") {
        // The reason may quote the prompt. It is shown in the thread and on the run's page.
        this.#info({ ...fields, model, retryable: event.retryable }, "A model call has failed.");
      }
      if (event.type === "approval.granted" || event.type === "approval.denied" || event.type === "approval.expired") {
        const outcome = event.type.replace("approval.", "");
        this.#info({ ...fields, approval: event.approvalId, outcome }, "A request for approval was settled.");
      }
      if (event.type !== "calls.reviewed") continue;
      for (const verdict of event.verdicts) {
        if (verdict.kind !== "ask") continue;
        this.#info({ ...fields, approval: verdict.approvalId, tool: verdict.tool }, "An approval is requested.");
      }
    }
    if (after.status !== "done" || run.status === "done") return;
    const { outcome, steps, tokens, cost } = after.snapshot.context;
    this.#info({ ...fields, outcome: outcome?.kind, steps, tokens, cost }, "The run has ended.");
  }
}
