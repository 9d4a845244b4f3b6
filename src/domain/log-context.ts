import { AsyncLocalStorage } from "node:async_hooks";
import type { RunSpec } from "./run.ts";

/** The fields of every log line that is written during some work. */
export interface LogContext {
  run?: string;
  rootRun?: string;
  worker?: string;
  /** `owner/repo`. */
  repository?: string;
  /** GitHub's id of the webhook delivery that is processed, or that started the run. */
  delivery?: string;
}

const contexts = new AsyncLocalStorage<LogContext>();

/** Calls `work`, whose log lines carry these fields. */
export function withLogContext<Result>(fields: LogContext, work: () => Result): Result {
  return contexts.run({ ...contexts.getStore(), ...fields }, work);
}

/** Returns the fields of a log line that is written now. */
export function logContext(): LogContext {
  return contexts.getStore() ?? {};
}

/** Returns the fields of the log lines of a run. */
export function logFieldsOf({ id, rootId, worker, origin, delivery }: RunSpec): LogContext {
  return {
    run: id,
    ...(rootId !== id && { rootRun: rootId }),
    worker: worker.name,
    repository: `${origin.owner}/${origin.repo}`,
    ...(delivery !== undefined && { delivery }),
  };
}
