import { type ActionContext, emit } from "./user-actions.ts";
import type {
  Annotation,
  AppIdentity,
  CheckRun,
  CheckSuite,
  CommitStatus,
  Conclusion,
  Repository,
  WorkflowRun,
} from "./world.ts";

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

export interface CheckRunFields {
  status?: CheckRun["status"] | undefined;
  conclusion?: Conclusion | undefined;
  title?: string | undefined;
  summary?: string | undefined;
  text?: string | undefined;
  annotations?: readonly Annotation[] | undefined;
  externalId?: string | undefined;
  detailsUrl?: string | undefined;
  log?: string | undefined;
}

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

/** Changes a check run. A conclusion completes it, and the last run to complete completes its suite. */
function updateCheckRun(context: ActionContext, run: CheckRun, fields: CheckRunFields): void {
  const wasCompleted = run.status === "completed";
  applyFields(run, fields);
  if (run.status === "completed" && !wasCompleted) reportCompletion(context, run);
  else context.world.notify();
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
  ...(["failure", "timed_out", "action_required", "cancelled", "success", "neutral", "skipped"] as const),
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

function createStatus(
  context: ActionContext,
  {
    commit,
    ...fields
  }: Pick<CommitStatus, "commit" | "context" | "state"> & Partial<Pick<CommitStatus, "description" | "targetUrl">>,
): CommitStatus {
  const { world, repository, actor } = context;
  const status: CommitStatus = {
    description: null,
    targetUrl: null,
    ...fields,
    id: world.nextId(),
    commit,
    creator: actor,
    createdAt: new Date(),
  };
  repository.statuses.push(status);
  emit(context, { event: "status", action: undefined, status });
  return status;
}

/** Starts a GitHub Actions workflow. It has no check runs until its jobs start. */
function startWorkflowRun(
  context: ActionContext,
  suite: CheckSuite,
  { name, event = "push" }: { name: string; event?: string },
): WorkflowRun {
  const now = new Date();
  const run: WorkflowRun = {
    id: context.world.nextId(),
    name,
    path: `.github/workflows/${name.toLowerCase().replaceAll(/\W+/g, "-")}.yml`,
    event,
    suite,
    actor: context.actor,
    status: "queued",
    conclusion: undefined,
    createdAt: now,
    updatedAt: now,
  };
  context.repository.workflowRuns.push(run);
  emit(context, { event: "workflow_run", action: "requested", workflowRun: run });
  return run;
}

/** Completes a workflow when all its jobs are done. Its conclusion follows from theirs unless one is given. */
function completeWorkflowRun(context: ActionContext, run: WorkflowRun, conclusion?: Conclusion): void {
  run.status = "completed";
  run.conclusion = conclusion ?? worst(runsOf(context.repository, run.suite));
  run.updatedAt = new Date();
  emit(context, { event: "check_suite", action: "completed", checkSuite: run.suite });
  emit(context, { event: "workflow_run", action: "completed", workflowRun: run });
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
