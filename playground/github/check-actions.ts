import { type ActionContext, emit } from "./user-actions.ts";
import type { AppIdentity, CheckRun, CheckSuite, CommitStatus, Conclusion, Repository, WorkflowRun } from "./world.ts";

export function createCheckSuite(
  context: ActionContext,
  { app, branch, commit }: { app: AppIdentity; branch: string; commit: string },
): CheckSuite {
  const now = new Date();
  const suite: CheckSuite = { id: context.world.nextId(), app, branch, commit, createdAt: now, updatedAt: now };
  context.repository.checkSuites.push(suite);
  // Only apps that may write checks learn of a new suite.
  if (app === context.world.app) emit(context, { event: "check_suite", action: "requested", checkSuite: suite });
  return suite;
}

/** Returns an app's check suite on a commit, and creates it if there is none. */
export function suiteOf(
  context: ActionContext,
  { app, branch, commit }: { app: AppIdentity; branch: string; commit: string },
): CheckSuite {
  const known = context.repository.checkSuites.find((suite) => suite.app === app && suite.commit === commit);
  return known ?? createCheckSuite(context, { app, branch, commit });
}

type Output = "title" | "summary" | "text" | "annotations" | "log";
export type CheckRunFields = Partial<Pick<CheckRun, "status" | "conclusion" | "externalId" | "detailsUrl" | Output>>;

export function createCheckRun(
  context: ActionContext,
  suite: CheckSuite,
  { name, ...fields }: CheckRunFields & { name: string },
): CheckRun {
  const run: CheckRun = {
    id: context.world.nextId(),
    suite,
    name,
    status: "queued",
    conclusion: undefined,
    title: undefined,
    summary: undefined,
    text: undefined,
    annotations: [],
    externalId: "",
    detailsUrl: undefined,
    startedAt: new Date(),
    completedAt: undefined,
    log: undefined,
  };
  context.repository.checkRuns.push(run);
  applyFields(run, fields);
  emit(context, { event: "check_run", action: "created", checkRun: run });
  if (run.status === "completed") reportCompletion(context, run);
  return run;
}

function applyFields(run: CheckRun, { annotations = [], ...fields }: CheckRunFields): void {
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  Object.assign(run, given);
  run.annotations.push(...annotations);
  if (run.conclusion !== undefined) run.status = "completed";
  if (run.status === "completed") run.completedAt ??= new Date();
  run.suite.updatedAt = new Date();
}

function reportCompletion(context: ActionContext, checkRun: CheckRun): void {
  emit(context, { event: "check_run", action: "completed", checkRun });
  if (suiteStatus(context.repository, checkRun.suite).status === "completed") {
    emit(context, { event: "check_suite", action: "completed", checkSuite: checkRun.suite });
  }
}

export function runsOf({ checkRuns }: Repository, suite: CheckSuite): CheckRun[] {
  return checkRuns.filter((run) => run.suite === suite);
}

const worstFirst: Conclusion[] = [
  "failure",
  "timed_out",
  "action_required",
  "cancelled",
  "success",
  "neutral",
  "skipped",
];

/** A suite is completed when all its runs and the workflow that adds them are. */
export function suiteStatus(
  repository: Repository,
  suite: CheckSuite,
): { status: CheckRun["status"]; conclusion: Conclusion | undefined } {
  const runs = runsOf(repository, suite);
  const workflow = repository.workflowRuns.find((run) => run.suite === suite);
  if (runs.length === 0 && workflow?.status !== "completed") return { status: "queued", conclusion: undefined };
  if (workflow && workflow.status !== "completed") return { status: workflow.status, conclusion: undefined };
  if (runs.some(({ status }) => status !== "completed")) return { status: "in_progress", conclusion: undefined };
  return { status: "completed", conclusion: workflow?.conclusion ?? worst(runs) };
}

function worst(runs: CheckRun[]): Conclusion {
  return worstFirst.find((conclusion) => runs.some((run) => run.conclusion === conclusion)) ?? "success";
}

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

  /** Changes a check run. A conclusion completes it, and the last run to complete completes its suite. */
  update(run: CheckRun, fields: CheckRunFields): void {
    const wasCompleted = run.status === "completed";
    applyFields(run, fields);
    if (run.status === "completed" && !wasCompleted) reportCompletion(this.#context, run);
    else this.#context.world.notify();
  }

  setStatus(context: string, state: CommitStatus["state"], fields: { description?: string; targetUrl?: string } = {}) {
    const { world, repository, actor: creator } = this.#context;
    const { commit } = this.#target;
    const status: CommitStatus = {
      ...{ description: null, targetUrl: null, ...fields },
      ...{ id: world.nextId(), commit, context, state, creator, createdAt: new Date() },
    };
    repository.statuses.push(status);
    emit(this.#context, { event: "status", action: undefined, status });
    return status;
  }

  /** Starts a GitHub Actions workflow. Its jobs are the check runs reported next. */
  startWorkflow(name: string, event = "push"): WorkflowRun {
    const now = new Date();
    const run: WorkflowRun = {
      id: this.#context.world.nextId(),
      name,
      path: `.github/workflows/${name.toLowerCase().replaceAll(/\W+/g, "-")}.yml`,
      event,
      suite: this.openSuite(),
      actor: this.#context.actor,
      status: "queued",
      conclusion: undefined,
      createdAt: now,
      updatedAt: now,
    };
    this.#context.repository.workflowRuns.push(run);
    emit(this.#context, { event: "workflow_run", action: "requested", workflowRun: run });
    return run;
  }

  /** Completes a workflow when all its jobs are done. Its conclusion follows from theirs unless one is given. */
  completeWorkflow(run: WorkflowRun, conclusion?: Conclusion): void {
    run.status = "completed";
    run.conclusion = conclusion ?? worst(runsOf(this.#context.repository, run.suite));
    run.updatedAt = new Date();
    emit(this.#context, { event: "check_suite", action: "completed", checkSuite: run.suite });
    emit(this.#context, { event: "workflow_run", action: "completed", workflowRun: run });
  }
}
