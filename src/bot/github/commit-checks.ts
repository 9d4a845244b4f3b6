import {
  type Check,
  type CheckAnnotation,
  type CommitChecks,
  GitHubRefusalError,
  type NewCheckRun,
} from "#domain/github.ts";
import type { RepositoryApi, ResponseData } from "./repository-api.ts";

/** A log is read completely, since it has no index, and this much of its end is kept. */
const maxLogBytes = 100_000_000;
const keptLogBytes = 200_000;

type CheckRun = ResponseData<"GET /repos/{owner}/{repo}/commits/{ref}/check-runs">["check_runs"][number];
type CheckSuite = ResponseData<"GET /repos/{owner}/{repo}/commits/{ref}/check-suites">["check_suites"][number];
type Status = ResponseData<"GET /repos/{owner}/{repo}/commits/{ref}/status">["statuses"][number];

/** True for a check of our own: nothing waits for it. */
export type IsOwnCheck = (check: {
  app: { id: number | bigint; slug?: string | undefined } | null;
  name: string;
}) => boolean;

/** Reads what Apps and commit statuses report for a commit. Our own checks are left out. */
export async function readCommitChecks(
  api: RepositoryApi,
  { ref, isOwn }: { ref: string; isOwn: IsOwnCheck },
): Promise<CommitChecks> {
  const missingPermissions: string[] = [];
  const withoutPermission = (permission: string) => (error: unknown) => {
    if (!(error instanceof GitHubRefusalError) || error.status !== 403) throw error;
    missingPermissions.push(permission);
    return [];
  };
  const [runs, suites, statuses] = await Promise.all([
    api.callPages("GET /repos/{owner}/{repo}/commits/{ref}/check-runs", { ref }),
    api.callPages("GET /repos/{owner}/{repo}/commits/{ref}/check-suites", { ref }),
    api.callPages("GET /repos/{owner}/{repo}/commits/{ref}/status", { ref }).catch(withoutPermission("statuses: read")),
  ]);
  const all = runs.flatMap(({ check_runs }) => check_runs);
  const others = all.filter((run) => !isOwn(run));
  const ownSuites = new Set(all.filter(isOwn).map((run) => Number(run.check_suite?.id)));
  const reported = [...others.map(checkOfRun), ...statuses.flatMap((page) => page.statuses.map(checkOfStatus))];
  const running = others.filter(({ status }) => status !== "completed");
  const open = suites
    .flatMap(({ check_suites }) => check_suites)
    .filter((suite) => isUnfinished(suite) && !ownSuites.has(Number(suite.id)))
    .filter((suite) => !running.some((run) => run.check_suite?.id === suite.id));
  const unfinished = [
    ...reported.filter(({ status }) => status !== "completed").map(({ name }) => name),
    ...open.map(({ app }) => app?.name ?? "a check suite"),
  ];
  return { checks: reported, unfinished, missingPermissions };
}

/**
 * GitHub opens a suite for every App that may write checks, and one without check runs never completes. A suite of GitHub
 * Actions is different: it is there for a workflow whose jobs may not have started yet.
 */
function isUnfinished({ app, status, latest_check_runs_count: runs }: CheckSuite): boolean {
  if (status === "completed") return false;
  return runs > 0 || app?.slug === "github-actions";
}

function checkOfRun({ id, name, app, status, conclusion, output, html_url }: CheckRun): Check {
  return {
    id: Number(id),
    name,
    ...(app?.slug && { app: app.slug }),
    status,
    conclusion,
    summary: [output.title, output.summary].filter(Boolean).join("\n") || null,
    url: html_url,
    annotations: output.annotations_count,
  };
}

function checkOfStatus({ context, state, description, target_url }: Status): Check {
  const isPending = state === "pending";
  return {
    name: context,
    status: isPending ? "in_progress" : "completed",
    conclusion: isPending ? null : state === "success" ? "success" : "failure",
    summary: description,
    url: target_url,
    annotations: 0,
  };
}

/** Creates a completed check run, unless the commit has one with its key. */
export async function postCheckRun(api: RepositoryApi, run: NewCheckRun): Promise<void> {
  const pages = await api.callPages("GET /repos/{owner}/{repo}/commits/{ref}/check-runs", { ref: run.commit });
  if (pages.some(({ check_runs }) => check_runs.some(({ external_id }) => external_id === run.key))) return;
  await api.call("POST /repos/{owner}/{repo}/check-runs", {
    name: run.name,
    head_sha: run.commit,
    external_id: run.key,
    status: "completed",
    conclusion: run.conclusion,
    output: {
      title: run.title,
      summary: run.summary,
      annotations: run.annotations.map(({ path, startLine, line, title, message }) => ({
        path,
        start_line: startLine,
        end_line: line,
        annotation_level: "warning" as const,
        title,
        message,
      })),
    },
  });
}

/** Reads the names that rulesets and the protection of a branch require. */
export async function readRequiredChecks(api: RepositoryApi, branch: string): Promise<string[]> {
  const [rules, protectedBranch] = await Promise.all([
    api.callPages("GET /repos/{owner}/{repo}/rules/branches/{branch}", { branch }),
    api.call("GET /repos/{owner}/{repo}/branches/{branch}", { branch }),
  ]);
  const required = rules.flat().flatMap((rule) => {
    if (rule.type !== "required_status_checks") return [];
    return rule.parameters?.required_status_checks.map(({ context }) => context) ?? [];
  });
  return [...new Set([...required, ...(protectedBranch.protection?.required_status_checks?.contexts ?? [])])];
}

export async function readAnnotations(api: RepositoryApi, checkId: number): Promise<CheckAnnotation[]> {
  const endpoint = "GET /repos/{owner}/{repo}/check-runs/{check_run_id}/annotations";
  const annotations = await api.call(endpoint, { check_run_id: checkId, per_page: 50 });
  return annotations.map(({ path, start_line, annotation_level, message }) => ({
    path,
    line: start_line,
    level: annotation_level ?? "notice",
    message: message ?? "",
  }));
}

/** Reads the end of a job's log; undefined where GitHub no longer has it or its storage does not answer. */
export async function readJobLog(api: RepositoryApi, jobId: number): Promise<string | undefined> {
  const endpoint = "GET /repos/{owner}/{repo}/actions/jobs/{job_id}/logs";
  return api.downloadEnd(endpoint, { job_id: jobId }, { maxBytes: maxLogBytes, keptBytes: keptLogBytes });
}
