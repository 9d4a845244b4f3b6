import {
  type CheckRunFields,
  completeWorkflowRun,
  createCheckRun,
  createStatus,
  startWorkflowRun,
  suiteOf,
  updateCheckRun,
} from "./check-actions.ts";
import type { ActionContext } from "./user-actions.ts";
import type { AppIdentity, CheckRun, CheckSuite, CommitStatus, Conclusion, WorkflowRun } from "./world.ts";

/** The reports of an app, such as GitHub Actions, on one commit of a branch. */
export class StoredChecks {
  readonly #context: ActionContext;
  readonly #target: { app: AppIdentity; branch: string; commit: string };

  constructor(context: ActionContext, target: { app: AppIdentity; branch: string; commit: string }) {
    this.#context = { ...context, app: target.app };
    this.#target = target;
  }

  /** Opens the app's check suite. Until it has runs, it stays queued. */
  openSuite(): CheckSuite {
    return suiteOf(this.#context, this.#target);
  }

  /** Adds a check run. One with a conclusion is completed. */
  report(name: string, fields: CheckRunFields): CheckRun {
    return createCheckRun(this.#context, this.openSuite(), { name, ...fields });
  }

  update(run: CheckRun, fields: CheckRunFields): void {
    updateCheckRun(this.#context, run, fields);
  }

  setStatus(context: string, state: CommitStatus["state"], fields: { description?: string; targetUrl?: string } = {}) {
    return createStatus(this.#context, { commit: this.#target.commit, context, state, ...fields });
  }

  /** Starts a GitHub Actions workflow. Its jobs are the check runs reported next. */
  startWorkflow(name: string, event = "push"): WorkflowRun {
    return startWorkflowRun(this.#context, this.openSuite(), { name, event });
  }

  completeWorkflow(run: WorkflowRun, conclusion?: Conclusion): void {
    completeWorkflowRun(this.#context, run, conclusion);
  }
}
