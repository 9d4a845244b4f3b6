import { z } from "zod";
import { createCheckRun, createStatus, runsOf, suiteOf, updateCheckRun } from "#playground/github/check-actions.ts";
import { branches, resolveCommit } from "#playground/github/git/git-repository.ts";
import {
  minimalRepository,
  showAnnotation,
  showCheckRun,
  showCheckSuite,
  showCommitStatus,
  showJob,
  showWorkflowRun,
} from "#playground/github/shapes/check.ts";
import { apiUrl, pageUrl } from "#playground/github/shapes/repository.ts";
import { showUser } from "#playground/github/shapes/user.ts";
import type { CheckRun, CheckSuite, CommitStatus, Repository, WorkflowRun } from "#playground/github/world.ts";
import { ApiError, notFound, validationFailed } from "./api-error.ts";
import {
  numberIn,
  paginate,
  parseBody,
  type RepositoryRequest,
  type RestOperation,
  repositoryOperation,
} from "./operation.ts";

const AnnotationInput = z.object({
  path: z.string(),
  start_line: z.number(),
  end_line: z.number(),
  annotation_level: z.enum(["notice", "warning", "failure"]),
  message: z.string(),
  title: z.string().optional(),
});
const Output = z.object({
  title: z.string().optional(),
  summary: z.string().max(65_535).optional(),
  text: z.string().max(65_535).optional(),
  annotations: z.array(AnnotationInput).max(50).optional(),
});
const CheckRunBody = z.object({
  status: z.enum(["queued", "in_progress", "completed"]).optional(),
  conclusion: z
    .enum(["success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"])
    .optional(),
  external_id: z.string().optional(),
  details_url: z.string().optional(),
  output: Output.optional(),
});
const NewCheckRun = CheckRunBody.extend({ name: z.string(), head_sha: z.string() });
const NewStatus = z.object({
  state: z.enum(["error", "failure", "pending", "success"]),
  context: z.string().default("default"),
  description: z.string().nullable().default(null),
  target_url: z.string().nullable().default(null),
});

const repo = "/repos/{owner}/{repo}";

export const checkOperations: RestOperation[] = [
  repositoryOperation("get", `${repo}/commits/{ref}/check-runs`, { checks: "read" }, async (request) => {
    const commit = await requireCommit(request);
    return { status: 200, ...listRuns(request, ({ suite }) => suite.commit === commit) };
  }),

  repositoryOperation("get", `${repo}/commits/{ref}/check-suites`, { checks: "read" }, async (request) => {
    const { world, repository } = request;
    const commit = await requireCommit(request);
    const suites = repository.checkSuites.filter((suite) => suite.commit === commit);
    const { body, headers } = paginate(request, suites);
    const check_suites = await Promise.all(body.map((suite) => showCheckSuite(world, repository, suite)));
    return { status: 200, headers, body: { total_count: suites.length, check_suites } };
  }),

  repositoryOperation("get", `${repo}/check-suites/{check_suite_id}`, { checks: "read" }, async (request) => {
    return { status: 200, body: await showCheckSuite(request.world, request.repository, requireSuite(request)) };
  }),

  repositoryOperation("get", `${repo}/check-suites/{check_suite_id}/check-runs`, { checks: "read" }, (request) => {
    const suite = requireSuite(request);
    return { status: 200, ...listRuns(request, (run) => run.suite === suite) };
  }),

  repositoryOperation("get", `${repo}/check-runs/{check_run_id}`, { checks: "read" }, (request) => {
    return { status: 200, body: showCheckRun(request.world, request.repository, requireRun(request)) };
  }),

  repositoryOperation("get", `${repo}/check-runs/{check_run_id}/annotations`, { checks: "read" }, (request) => {
    const { world, repository } = request;
    const run = requireRun(request);
    const { body, headers } = paginate(request, run.annotations);
    return { status: 200, headers, body: body.map((one) => showAnnotation(world, repository, run, one)) };
  }),

  repositoryOperation("post", `${repo}/check-runs`, { checks: "write" }, async (request) => {
    const { world, repository, context } = request;
    const { name, head_sha, ...fields } = parseBody(request, "CheckRun", NewCheckRun);
    const commit = await resolveCommit(repository.gitDirectory, head_sha);
    if (!commit) throw new ApiError(422, `No commit found for SHA: ${head_sha}`);
    const branch = [...(await branches(repository.gitDirectory))].find(([, sha]) => sha === commit)?.[0] ?? "";
    const suite = suiteOf(context, { app: world.app, commit, branch: branch.replace(/^refs\/heads\//, "") });
    const run = createCheckRun(context, suite, { name, ...runFields(fields) });
    return { status: 201, body: showCheckRun(world, repository, run) };
  }),

  repositoryOperation("patch", `${repo}/check-runs/{check_run_id}`, { checks: "write" }, (request) => {
    const run = requireRun(request);
    if (run.suite.app !== request.world.app)
      throw new ApiError(
        403,
        `Invalid app_id \`${run.suite.app.id}\` - check run can only be modified by the GitHub App that created it.`,
      );
    updateCheckRun(request.context, run, runFields(parseBody(request, "CheckRun", CheckRunBody)));
    return { status: 200, body: showCheckRun(request.world, request.repository, run) };
  }),

  repositoryOperation("post", `${repo}/statuses/{sha}`, { statuses: "write" }, async (request) => {
    const { world, repository, params } = request;
    const { target_url, ...fields } = parseBody(request, "Status", NewStatus);
    const commit = await resolveCommit(repository.gitDirectory, params.sha ?? "");
    if (!commit) throw new ApiError(422, `No commit found for SHA: ${params.sha}`);
    const status = createStatus(request.context, { commit, targetUrl: target_url, ...fields });
    const creator = showUser(world, status.creator);
    return { status: 201, body: { ...showCommitStatus(world, repository, status), creator } };
  }),

  repositoryOperation("get", `${repo}/commits/{ref}/statuses`, { statuses: "read" }, async (request) => {
    const { world, repository } = request;
    const commit = await requireCommit(request);
    const statuses = repository.statuses.filter((status) => status.commit === commit).reverse();
    const { body, headers } = paginate(request, statuses);
    return {
      status: 200,
      headers,
      body: body.map((status) => ({
        ...showCommitStatus(world, repository, status),
        creator: showUser(world, status.creator),
      })),
    };
  }),

  repositoryOperation("get", `${repo}/commits/{ref}/status`, { statuses: "read" }, async (request) => {
    const { world, repository } = request;
    const commit = await requireCommit(request);
    const statuses = latestStatuses(repository, commit);
    return {
      status: 200,
      body: {
        state: combinedState(statuses),
        statuses: statuses.map((status) => showCommitStatus(world, repository, status)),
        sha: commit,
        total_count: statuses.length,
        repository: minimalRepository(world, repository),
        commit_url: `${apiUrl(world, repository)}/commits/${commit}`,
        url: `${apiUrl(world, repository)}/commits/${commit}/status`,
      },
    };
  }),

  repositoryOperation("get", `${repo}/actions/runs`, { actions: "read" }, async (request) => {
    const { world, repository, url } = request;
    const chosen = (name: string, ...actual: (string | undefined)[]) => {
      const wanted = url.searchParams.get(name);
      return !wanted || actual.includes(wanted);
    };
    const runs = repository.workflowRuns
      .filter(
        ({ suite, event, status, conclusion }) =>
          chosen("head_sha", suite.commit) &&
          chosen("branch", suite.branch) &&
          chosen("event", event) &&
          chosen("status", status, conclusion),
      )
      .reverse();
    const { body, headers } = paginate(request, runs);
    const workflow_runs = await Promise.all(body.map((run) => showWorkflowRun(world, repository, run)));
    return { status: 200, headers, body: { total_count: runs.length, workflow_runs } };
  }),

  repositoryOperation("get", `${repo}/actions/runs/{run_id}`, { actions: "read" }, async (request) => {
    return { status: 200, body: await showWorkflowRun(request.world, request.repository, requireWorkflow(request)) };
  }),

  repositoryOperation("get", `${repo}/actions/runs/{run_id}/jobs`, { actions: "read" }, (request) => {
    const { world, repository } = request;
    const run = requireWorkflow(request);
    const jobs = runsOf(repository, run.suite);
    const { body, headers } = paginate(request, jobs);
    return {
      status: 200,
      headers,
      body: { total_count: jobs.length, jobs: body.map((job) => showJob(world, repository, run, job)) },
    };
  }),

  repositoryOperation("get", `${repo}/actions/jobs/{job_id}`, { actions: "read" }, (request) => {
    const { run, job } = requireJob(request);
    return { status: 200, body: showJob(request.world, request.repository, run, job) };
  }),

  // GitHub redirects to a download that needs no credentials and is valid for a minute.
  repositoryOperation("get", `${repo}/actions/jobs/{job_id}/logs`, { actions: "read" }, (request) => {
    const { job } = requireJob(request);
    if (job.log === undefined) throw notFound();
    const location = `${pageUrl(request.world, request.repository)}/logs/${job.id}`;
    return { status: 302, body: undefined, headers: { Location: location } };
  }),
];

async function requireCommit({ repository, params }: RepositoryRequest): Promise<string> {
  const commit = await resolveCommit(repository.gitDirectory, params.ref ?? "");
  if (!commit) throw new ApiError(422, `No commit found for SHA: ${params.ref}`);
  return commit;
}

function listRuns(request: RepositoryRequest, isChosen: (run: CheckRun) => boolean) {
  const { world, repository, url } = request;
  const [name, status] = ["check_name", "status"].map((field) => url.searchParams.get(field));
  const runs = repository.checkRuns.filter(
    (run) => isChosen(run) && (!name || run.name === name) && (!status || run.status === status),
  );
  const { body, headers } = paginate(request, runs);
  return {
    headers,
    body: { total_count: runs.length, check_runs: body.map((run) => showCheckRun(world, repository, run)) },
  };
}

function requireSuite(request: RepositoryRequest): CheckSuite {
  const id = numberIn(request, "check_suite_id");
  const suite = request.repository.checkSuites.find((one) => one.id === id);
  if (!suite) throw notFound();
  return suite;
}

function requireRun(request: RepositoryRequest, name = "check_run_id"): CheckRun {
  const id = numberIn(request, name);
  const run = request.repository.checkRuns.find((one) => one.id === id);
  if (!run) throw notFound();
  return run;
}

function requireWorkflow(request: RepositoryRequest): WorkflowRun {
  const id = numberIn(request, "run_id");
  const run = request.repository.workflowRuns.find((one) => one.id === id);
  if (!run) throw notFound();
  return run;
}

function requireJob(request: RepositoryRequest): { run: WorkflowRun; job: CheckRun } {
  const job = requireRun(request, "job_id");
  const run = request.repository.workflowRuns.find(({ suite }) => suite === job.suite);
  if (!run) throw notFound();
  return { run, job };
}

function runFields({ output = {}, external_id, details_url, status, conclusion }: z.infer<typeof CheckRunBody>) {
  if (status === "completed" && !conclusion) {
    throw validationFailed({ resource: "CheckRun", code: "missing_field", field: "conclusion" });
  }
  return { ...output, status, conclusion, externalId: external_id, detailsUrl: details_url };
}

function latestStatuses(repository: Repository, commit: string): CommitStatus[] {
  const statuses = repository.statuses.filter((status) => status.commit === commit);
  return [...new Map(statuses.map((status) => [status.context, status])).values()];
}

function combinedState(statuses: CommitStatus[]): "failure" | "pending" | "success" {
  if (statuses.some(({ state }) => state === "error" || state === "failure")) return "failure";
  return statuses.length > 0 && statuses.every(({ state }) => state === "success") ? "success" : "pending";
}
