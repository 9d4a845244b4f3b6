import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { createOctokit } from "#config/create-octokit.ts";
import { actionWorkflowPath, findWorkflowNames, renderActionWorkflow } from "./action-workflow.ts";
import { type DoctorCheck, failure, warning } from "./doctor-check.ts";

const Workflow = z.object({
  on: z.record(
    z.string(),
    z
      .object({ workflows: z.array(z.string()).optional() })
      .nullable()
      .catch(null),
  ),
  concurrency: z.object({ queue: z.string().optional() }).optional().catch(undefined),
  permissions: z.record(z.string(), z.string()).default({}),
  jobs: z.record(
    z.string(),
    z.object({ steps: z.array(z.object({ env: z.record(z.string(), z.string()).optional() })) }),
  ),
});
type Workflow = z.infer<typeof Workflow>;

const settingName = "Allow GitHub Actions to create and approve pull requests";
const settingFix = `Turn on "${settingName}" under Settings → Actions → General → Workflow permissions.`;

/**
 * Checks the workflow of the GitHub Action in a checkout and, with an administrator's token in GITHUB_TOKEN or GH_TOKEN, the
 * repository's settings. Yields nothing for a checkout without the workflow. Makes no changes.
 */
export async function* runActionChecks(
  root: string,
  environment: Record<string, string | undefined>,
): AsyncGenerator<DoctorCheck> {
  const text = await readFile(join(root, actionWorkflowPath), "utf8").catch(() => undefined);
  if (text === undefined) return;
  const workflow = readWorkflow(text);
  if (!workflow) {
    const fix = "Delete it, and run golem init --action.";
    yield failure("Workflow", `${actionWorkflowPath} is not a valid workflow.`, fix);
    return;
  }
  yield checkParts(workflow);
  yield checkAwaited(workflow, await findWorkflowNames(root));
  yield* checkSettings(await findRepository(root, environment), workflow, environment);
}

function readWorkflow(text: string): Workflow | undefined {
  try {
    return Workflow.safeParse(parse(text, { logLevel: "silent" })).data;
  } catch {
    return undefined;
  }
}

/** Compares the workflow with that of `golem init --action`. */
function checkParts({ on, permissions, concurrency }: Workflow): DoctorCheck {
  const name = "Workflow";
  const expected = Workflow.parse(
    parse(renderActionWorkflow({ workflows: [], model: "anthropic:any", from: { version: "0" } })),
  );
  const missing = [
    ...Object.keys(expected.on)
      .filter((trigger) => !(trigger in on))
      .map((trigger) => `the trigger ${trigger}`),
    ...Object.entries(expected.permissions)
      .filter(([permission, access]) => permissions[permission] !== access && permissions[permission] !== "write")
      .map(([permission, access]) => `the permission ${permission}: ${access}`),
    ...(concurrency?.queue === "max" ? [] : ["queue: max in its concurrency group"]),
  ];
  if (missing.length === 0)
    return { name, status: "ok", detail: `${actionWorkflowPath} has everything that the Action needs.` };
  const fix = "Add it, or delete the file and run golem init --action.";
  return failure(name, `${actionWorkflowPath} lacks ${missing.join(", ")}.`, fix);
}

function checkAwaited({ on }: Workflow, names: readonly string[]): DoctorCheck {
  const name = "Checks";
  const awaited = on.workflow_run?.workflows ?? [];
  const others = names.filter((other) => !awaited.includes(other));
  if (others.length === 0) return { name, status: "ok", detail: "The results of every workflow reach the workers." };
  const detail = `Workers are not notified when ${others.join(", ")} completes.`;
  return warning(name, detail, `Add the name under workflow_run in ${actionWorkflowPath}.`);
}

/** Finds `owner/repo` in the environment of a job or in the checkout's remote. */
async function findRepository(
  root: string,
  environment: Record<string, string | undefined>,
): Promise<string | undefined> {
  if (environment.GITHUB_REPOSITORY) return environment.GITHUB_REPOSITORY;
  const config = await readFile(join(root, ".git/config"), "utf8").catch(() => "");
  const url = /\[remote "origin"\][^[]*?\burl\s*=\s*(\S+)/.exec(config)?.[1];
  return /[:/]([\w.-]+\/[\w.-]+?)(?:\.git)?$/.exec(url ?? "")?.[1];
}

const PullRequestSetting = z.object({ can_approve_pull_request_reviews: z.boolean() });

async function* checkSettings(
  repository: string | undefined,
  { jobs }: Workflow,
  { GITHUB_TOKEN, GH_TOKEN, GITHUB_API_URL: baseUrl }: Record<string, string | undefined>,
): AsyncGenerator<DoctorCheck> {
  const auth = GITHUB_TOKEN || GH_TOKEN;
  const [owner, repo] = repository?.split("/") ?? [];
  const octokit = createOctokit({ auth, baseUrl });
  const ask = async (route: string): Promise<{ status: number; data?: unknown }> => {
    if (!auth || !owner) return { status: 401 };
    return octokit.request(route, { owner, repo }).catch(({ status = 0 }: { status?: number }) => ({ status }));
  };

  const name = "Pull requests";
  const permissions = await ask("GET /repos/{owner}/{repo}/actions/permissions/workflow");
  const setting = PullRequestSetting.safeParse(permissions.data).data;
  if (!setting) {
    const detail = `Could not check whether jobs may open pull requests here: checking requires the token of an administrator in GITHUB_TOKEN.`;
    yield warning(name, detail, settingFix);
  } else if (setting.can_approve_pull_request_reviews) {
    yield { name, status: "ok", detail: "Jobs may open pull requests." };
  } else yield failure(name, "Jobs may not open pull requests.", settingFix);

  const texts = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ env = {} }) => Object.values(env)));
  const secrets = texts.flatMap((text) => [...text.matchAll(/\$\{\{\s*secrets\.(\w+)\s*\}\}/g)].map(([, key]) => key));
  for (const secret of new Set(secrets)) {
    const { status } = await ask(`GET /repos/{owner}/{repo}/actions/secrets/${secret}`);
    if (status === 200) yield { name: "Secret", status: "ok", detail: `${secret} is set.` };
    else {
      const detail = status === 404 ? `${secret} is not set.` : `Could not check whether ${secret} is set.`;
      const fix = `Add it under Settings → Secrets and variables → Actions.`;
      yield { name: "Secret", status: status === 404 ? "problem" : "warning", detail, fix };
    }
  }
}
