import { z } from "zod";
import { createCheckRun, suiteOf } from "#playground/github/check-actions.ts";
import { branches, resolveCommit } from "#playground/github/git/git-repository.ts";
import {
  minimalRepository,
  showAnnotation,
  showCheckRun,
  showCheckSuite,
  showCommitStatus,
  showWorkflowRun,
} from "#playground/github/shapes/check.ts";
import { apiUrl, pageUrl } from "#playground/github/shapes/repository.ts";
import { Annotation, type CheckRun, type CommitStatus, type Repository } from "#playground/github/world.ts";
import { ApiError, orNotFound, validationFailed } from "./api-error.ts";
import {
  numberIn,
  paginate,
  parseBody,
  type RepositoryRequest,
  type RestOperation,
  repositoryOperation,
  respondWithPage,
} from "./operation.ts";

const Output = z.object({
  title: z.string().optional(),
  summary: z.string().max(65_535).optional(),
  text: z.string().max(65_535).optional(),
  annotations: z.array(Annotation).max(50).optional(),
});
const NewCheckRun = z.object({
  name: z.string(),
  head_sha: z.string(),
  status: z.enum(["queued", "in_progress", "completed"]).optional(),
  conclusion: z
    .enum(["success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"])
    .optional(),
  external_id: z.string().optional(),
  details_url: z.string().optional(),
  output: Output.optional(),
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

  repositoryOperation("get", `${repo}/check-runs/{check_run_id}/annotations`, { checks: "read" }, (request) => {
    const { world, repository } = request;
    const run = requireRun(request);
    return respondWithPage(request, run.annotations, (one) => showAnnotation(world, repository, run, one));
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

  // GitHub redirects to a download that needs no credentials and is valid for a minute.
  repositoryOperation("get", `${repo}/actions/jobs/{job_id}/logs`, { actions: "read" }, (request) => {
    const { id, log } = requireRun(request, "job_id");
    orNotFound(log);
    const location = `${pageUrl(request.world, request.repository)}/logs/${id}`;
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

/** The check run in the path. A job of GitHub Actions has the id of its check run. */
function requireRun(request: RepositoryRequest, name = "check_run_id"): CheckRun {
  const id = numberIn(request, name);
  return orNotFound(request.repository.checkRuns.find((one) => one.id === id));
}

function runFields({
  output = {},
  external_id,
  details_url,
  status,
  conclusion,
}: Omit<z.infer<typeof NewCheckRun>, "name" | "head_sha">) {
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
