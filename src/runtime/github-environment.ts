import { type DeploymentPolicy, sandboxTools } from "#config/deployment-policy.ts";
import { UserError } from "#domain/errors.ts";
import type { GitHub, OpenGitHub } from "#domain/github.ts";
import { branchOf, type RunSpec } from "#domain/run.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import { instructionsFor } from "#runtime/model/instructions.ts";
import { readGuidance } from "#runtime/start/read-guidance.ts";
import type { WorkerCatalog } from "#runtime/start/worker-catalog.ts";
import { requireRun, type Store } from "#runtime/store/store.ts";
import type { SandboxSource, StepChanges } from "#sandbox/sandbox.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { reportMissingPermission } from "./missing-permission.ts";
import { type RunEnvironment, readSettings } from "./run-environment.ts";

/** The services that a deployment provides to the tools of every run. */
export type SharedServices = Pick<ToolServices, "sanitize" | "redact" | "executors" | "web" | "customToolsFrom">;

export interface GitHubEnvironmentOptions {
  store: Store;
  openGitHub: OpenGitHub;
  catalog: WorkerCatalog;
  services: SharedServices;
  policy: DeploymentPolicy;
}

/** The maximum age of the settings that every command of a run reads. */
const settingsAgeMs = 10 * 60_000;

/** Runs work on repositories on GitHub: each run has its own sandbox over the base of its root. */
export function createGitHubEnvironment({
  store,
  openGitHub,
  catalog,
  services,
  policy,
}: GitHubEnvironmentOptions): RunEnvironment {
  return {
    catalog,
    repository: ({ origin }) => openGitHub(origin),
    instructions: instructionsFor,
    async openWorkspace(spec, base, signal) {
      const github = openGitHub(spec.origin);
      const [source, inherited, own, policies, at] = await Promise.all([
        sourceOf(github),
        inheritedChanges(store, spec),
        store.changesOf(spec.id),
        policiesOf(store, spec),
        base ?? startBranch(spec, github).then((branch) => ({ branch })),
      ]);
      // A third of the program, which only runs need.
      const [{ openSandbox }, { openToolbox }] = await Promise.all([
        import("#sandbox/open-sandbox.ts"),
        import("#toolsets/open-toolbox.ts"),
      ]);
      const sandbox = await openSandbox({
        source,
        at,
        changes: [...inherited, ...own],
        policy: policies,
        signal,
        pushesToBase: spec.pullRequestBranch !== undefined,
        followsDefaultBranch: !spec.origin.isPullRequest,
      });
      return {
        base: sandbox.base,
        changeSets: own.length,
        tracking: sandbox,
        diff: () => sandbox.diffAgainstBase(),
        readFile: (path) => sandbox.readBytes(path),
        readGuidance: (task) => readGuidance(spec, { workspace: sandbox, github, task }),
        openToolbox: (history) =>
          openToolbox(
            spec.worker,
            {
              spec,
              workspace: sandbox,
              sandbox,
              github,
              branch: branchOf(spec),
              history,
              approvals: () => store.approvalsOf(spec.rootId),
              workers: () => catalog.list(github),
              findWorker: (name) => catalog.find(name, github),
              usesCheckRun: async () => (await readSettings(github)).check_run,
              reportMissingPermission: (permission) =>
                reportMissingPermission(permission, { github, thread: spec.origin.thread, keys: keysOf(store) }),
              maxOpenPullRequests: async () => (await readSettings(github)).max_open_pull_requests,
              ...services,
              networkHosts: policy.network_hosts,
              sandboxTools: sandboxTools(policy, `${spec.origin.owner}/${spec.origin.repo}`),
              setupCommands: async () => (await readSettings(github, { maxAgeMs: settingsAgeMs })).setup,
              workerDirectory: spec.workerSource === "deployment" ? catalog.directory : undefined,
            },
            { alwaysAsk: spec.workerSource === "repository" ? policy.always_ask : [] },
          ),
      };
    },
  };
}

function keysOf(store: Store): Parameters<typeof reportMissingPermission>[1]["keys"] {
  return {
    hasRecorded: (key) => store.hasDelivery(key),
    recordKey: (key) => store.ingest({ deliveryId: key, events: [] }).then(() => undefined),
  };
}

/** Returns the branch a run starts from; undefined for the default branch. */
async function startBranch({ origin, isFork }: RunSpec, github: GitHub): Promise<string | undefined> {
  if (!origin.isPullRequest) return undefined;

  const pull = await github.getPullRequest(origin.thread);
  if (!pull) throw new UserError(`Pull request #${origin.thread} was not found.`);
  if (pull.head.fromFork && !isFork) {
    throw new UserError(`Pull request #${origin.thread} comes from a fork, which was not known when this run started.`);
  }
  // A fork's branch is in another repository; GitHub keeps a copy of it here under this name.
  return pull.head.fromFork ? `refs/pull/${origin.thread}/head` : pull.head.branch;
}

/** Returns the policies from the root's to the run's own: a child may not exceed any worker above it. */
async function policiesOf(store: Store, { parentId, worker }: RunSpec): Promise<SandboxPolicy[]> {
  const above = parentId ? await policiesOf(store, (await requireRun(store, parentId)).spec) : [];
  return worker.sandbox ? [...above, worker.sandbox] : above;
}

/** Returns the changes of a child's ancestors, since it starts from its parent's tree at the time of the spawn. */
async function inheritedChanges(store: Store, spec: RunSpec): Promise<StepChanges[]> {
  if (!spec.parentId) return [];
  const parent = await requireRun(store, spec.parentId);
  const above = await inheritedChanges(store, parent.spec);
  return [...above, ...(await store.changesOf(spec.parentId, spec.parentChanges))];
}

async function sourceOf(github: GitHub): Promise<SandboxSource> {
  const { installationId, repositoryId, owner, repo } = github.repository;
  return {
    tenant: `${installationId}/${repositoryId ?? `${owner}/${repo}`}`.toLowerCase(),
    url: await github.getCloneUrl(),
    token: (access, rejected) => github.createGitToken(access, rejected),
    createCommit: async (commit) =>
      (await readSettings(github)).verified_commits ? github.createCommit(commit) : undefined,
  };
}
