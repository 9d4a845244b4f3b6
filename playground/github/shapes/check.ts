import { runsOf, suiteStatus } from "#playground/github/check-actions.ts";
import { readGitCommit } from "#playground/github/git/git-repository.ts";
import type {
  Annotation,
  CheckRun,
  CheckSuite,
  CommitStatus,
  Repository,
  WorkflowRun,
  World,
} from "#playground/github/world.ts";
import { showApp } from "./app.ts";
import { nodeId } from "./node-id.ts";
import { showPullsOf } from "./pull-request.ts";
import { apiUrl, pageUrl, showFullRepository } from "./repository.ts";
import type { Schemas } from "./schemas.ts";
import { showUser } from "./user.ts";

export function showCheckRun(world: World, repository: Repository, run: CheckRun) {
  const url = `${apiUrl(world, repository)}/check-runs/${run.id}`;
  const page = `${pageUrl(world, repository)}/runs/${run.id}`;
  return {
    id: run.id,
    head_sha: run.suite.commit,
    node_id: nodeId("CheckRun", run.id),
    external_id: run.externalId,
    url,
    html_url: page,
    details_url: run.detailsUrl ?? page,
    status: run.status,
    conclusion: run.conclusion ?? null,
    started_at: run.startedAt.toISOString(),
    completed_at: run.completedAt?.toISOString() ?? null,
    output: {
      title: run.title ?? null,
      summary: run.summary ?? null,
      text: run.text ?? null,
      annotations_count: run.annotations.length,
      annotations_url: `${url}/annotations`,
    },
    name: run.name,
    check_suite: { id: run.suite.id },
    app: showApp(world, run.suite.app),
    pull_requests: showPullsOf(world, repository, run.suite.commit),
  } satisfies Schemas["check-run"];
}

export function showAnnotation(
  world: World,
  repository: Repository,
  run: CheckRun,
  annotation: Annotation,
): Schemas["check-annotation"] {
  return {
    path: annotation.path,
    start_line: annotation.start_line,
    end_line: annotation.end_line,
    start_column: null,
    end_column: null,
    annotation_level: annotation.annotation_level,
    title: annotation.title ?? null,
    message: annotation.message,
    raw_details: null,
    blob_href: `${pageUrl(world, repository)}/blob/${run.suite.commit}/${annotation.path}`,
  };
}

export async function showCheckSuite(world: World, repository: Repository, suite: CheckSuite) {
  const url = `${apiUrl(world, repository)}/check-suites/${suite.id}`;
  const { status, conclusion } = suiteStatus(repository, suite);
  return {
    id: suite.id,
    node_id: nodeId("CheckSuite", suite.id),
    head_branch: suite.branch,
    head_sha: suite.commit,
    status,
    conclusion: conclusion ?? null,
    url,
    before: null,
    after: suite.commit,
    pull_requests: showPullsOf(world, repository, suite.commit),
    app: showApp(world, suite.app),
    repository: minimalRepository(world, repository),
    created_at: suite.createdAt.toISOString(),
    updated_at: suite.updatedAt.toISOString(),
    head_commit: await simpleCommit(repository, suite.commit),
    latest_check_runs_count: runsOf(repository, suite).length,
    check_runs_url: `${url}/check-runs`,
  } satisfies Schemas["check-suite"];
}

export async function simpleCommit(repository: Repository, id: string): Promise<Schemas["simple-commit"]> {
  const { tree, message, author, committer } = await readGitCommit(repository.gitDirectory, id);
  const timestamp = new Date(committer.timestamp * 1000).toISOString();
  const person = ({ name, email }: { name: string; email: string }) => ({ name, email });
  return { id, tree_id: tree, message, timestamp, author: person(author), committer: person(committer) };
}

export function minimalRepository(world: World, repository: Repository): Schemas["minimal-repository"] {
  const { temp_clone_token, license, security_and_analysis, ...fields } = showFullRepository(world, repository);
  return fields;
}

export async function showWorkflowRun(world: World, repository: Repository, run: WorkflowRun) {
  const url = `${apiUrl(world, repository)}/actions/runs/${run.id}`;
  const actor = showUser(world, run.actor);
  const shownRepository = minimalRepository(world, repository);
  return {
    id: run.id,
    name: run.name,
    node_id: nodeId("WorkflowRun", run.id),
    check_suite_id: run.suite.id,
    check_suite_node_id: nodeId("CheckSuite", run.suite.id),
    head_branch: run.suite.branch,
    head_sha: run.suite.commit,
    path: run.path,
    run_number: run.id,
    run_attempt: 1,
    referenced_workflows: [],
    event: run.event,
    status: run.status,
    conclusion: run.conclusion ?? null,
    workflow_id: 1,
    url,
    html_url: `${pageUrl(world, repository)}/actions/runs/${run.id}`,
    pull_requests: showPullsOf(world, repository, run.suite.commit),
    created_at: run.createdAt.toISOString(),
    updated_at: run.updatedAt.toISOString(),
    actor,
    triggering_actor: actor,
    run_started_at: run.createdAt.toISOString(),
    jobs_url: `${url}/jobs`,
    logs_url: `${url}/logs`,
    check_suite_url: `${apiUrl(world, repository)}/check-suites/${run.suite.id}`,
    artifacts_url: `${url}/artifacts`,
    cancel_url: `${url}/cancel`,
    rerun_url: `${url}/rerun`,
    previous_attempt_url: null,
    workflow_url: `${apiUrl(world, repository)}/actions/workflows/1`,
    head_commit: await simpleCommit(repository, run.suite.commit),
    repository: shownRepository,
    head_repository: shownRepository,
    display_title: run.name,
  } satisfies Schemas["workflow-run"];
}

export function showCommitStatus(world: World, repository: Repository, status: CommitStatus) {
  const createdAt = status.createdAt.toISOString();
  return {
    url: `${apiUrl(world, repository)}/statuses/${status.commit}`,
    avatar_url: showUser(world, status.creator).avatar_url,
    id: status.id,
    node_id: nodeId("StatusContext", status.id),
    state: status.state,
    description: status.description,
    target_url: status.targetUrl,
    context: status.context,
    created_at: createdAt,
    updated_at: createdAt,
  } satisfies Schemas["simple-commit-status"];
}
