import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";

/** The file of the Action's workflow in a repository. */
export const actionWorkflowPath = ".github/workflows/golem-forge.yml";

/** The model keys by provider. */
const keyVariables: Record<string, string> = {
  anthropic: "ANTHROPIC_API_KEY",
  openai: "OPENAI_API_KEY",
  google: "GOOGLE_GENERATIVE_AI_API_KEY",
  compatible: "OPENAI_COMPATIBLE_API_KEY",
};

/** Pinned by commit, because the job that it runs in may write to the repository. action.yml names the same. */
const setupNode = "actions/setup-node@820762786026740c76f36085b0efc47a31fe5020 # v7.0.0";

export interface ActionWorkflowOptions {
  /** The names of the workflows whose completion starts a job. */
  workflows: readonly string[];
  /** `provider:model`. */
  model: string;
  /** The code that jobs run: a version of the npm package, or a repository with its `action.yml`, such as `acme/golem-forge@v1`. */
  from: { version: string } | { uses: string };
}

/** Returns the name of the secret that a model's key is expected in. */
export function keyVariableOf(model: string): string {
  return keyVariables[model.split(":", 1)[0] ?? ""] ?? "ANTHROPIC_API_KEY";
}

/** The address of a `compatible:` model, of which the workflow file has an example. */
export const baseUrlVariable = "OPENAI_COMPATIBLE_BASE_URL";

/** Returns true for a model whose address has to be written into the workflow file. */
export function needsBaseUrl(model: string): boolean {
  return model.startsWith("compatible:");
}

/** Renders the workflow file. It contains no untrusted text: jobs read the event from a file. */
export function renderActionWorkflow({ workflows, model, from }: ActionWorkflowOptions): string {
  const key = keyVariableOf(model);
  const baseUrl = needsBaseUrl(model) ? `          ${baseUrlVariable}: https://models.example.com/v1\n` : "";
  const steps =
    "uses" in from
      ? `      - uses: ${from.uses}`
      : `      - uses: ${setupNode}
        with:
          node-version: 26
      - run: npx --yes golem-forge@${from.version} action`;
  const workflowRun =
    workflows.length > 0
      ? `  # The workflows whose results workers wait for, by name. Add new ones here.
  workflow_run:
    workflows: ${JSON.stringify(workflows)}
    types: [completed]
`
      : `  # Add the workflows whose results workers should wait for, by name:
  # workflow_run:
  #   workflows: ["CI"]
  #   types: [completed]
`;
  return `# Golem Forge without a server: each event starts a job, which ends as soon as every run waits for someone.
# Documentation: docs/github-action.md of golem-forge
name: Golem Forge

on:
  issue_comment:
    types: [created, edited]
  issues:
    types: [opened, reopened, labeled, assigned, closed, deleted, transferred]
  pull_request:
    types: [opened, reopened, edited, synchronize, labeled, assigned, ready_for_review, review_requested, closed]
  pull_request_review:
    types: [submitted]
  pull_request_review_comment:
    types: [created]
${workflowRun}  # Timers, such as the end of an approval request, and scheduled workers.
  schedule:
    - cron: "17 */6 * * *"
  workflow_dispatch:

# One job at a time. The others wait, and none of them is dropped.
concurrency:
  group: golem-forge
  queue: max

permissions:
  actions: read
  checks: read
  contents: write
  issues: write
  pull-requests: write
  statuses: read

jobs:
  golem-forge:
    # Bots cannot give commands, and GitHub gives no secrets to pull requests from forks.
    if: >-
      (github.event_name == 'workflow_run' || github.event.sender.type != 'Bot') &&
      (!github.event.pull_request || github.event.pull_request.head.repo.id == github.event.repository.id)
    runs-on: ubuntu-latest
    timeout-minutes: 60
    steps:
${steps}
        env:
          GITHUB_TOKEN: \${{ github.token }}
          GOLEM_FORGE_MODEL: ${JSON.stringify(model)}
          ${key}: \${{ secrets.${key} }}
${baseUrl}          # Keeps the saved runs readable when the model's key changes:
          # GOLEM_FORGE_STATE_SECRET: \${{ secrets.GOLEM_FORGE_STATE_SECRET }}
`;
}

const Workflow = z.object({ name: z.string().optional() });

/** Returns the names of the other workflows of a checkout as GitHub shows them, which is the path for an unnamed one. */
export async function findWorkflowNames(root: string): Promise<string[]> {
  const folder = ".github/workflows";
  const files = await readdir(join(root, folder)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const names = await Promise.all(
    files
      .filter((file) => /\.ya?ml$/.test(file) && `${folder}/${file}` !== actionWorkflowPath)
      .sort()
      .map(async (file) => {
        const workflow = Workflow.safeParse(parseQuietly(await readFile(join(root, folder, file), "utf8")));
        return workflow.data?.name ?? `${folder}/${file}`;
      }),
  );
  return [...new Set(names)];
}

function parseQuietly(text: string): unknown {
  try {
    return parse(text, { logLevel: "silent" });
  } catch {
    return undefined;
  }
}
