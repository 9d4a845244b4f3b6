import type { LoggedEvent } from "#domain/events.ts";
import type { GitHub, OpenGitHub } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { SandboxPolicy, WorkerDefinition } from "#domain/worker.ts";
import type { WorkerCatalog } from "#runtime/start/worker-catalog.ts";
import type { Store } from "#runtime/store/store.ts";
import type { GitSandbox } from "#sandbox/git-sandbox.ts";
import type { BaseCommit, OpenSandbox, SandboxSource, StepChanges } from "#sandbox/sandbox.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { branchOf } from "./branch-of.ts";
import type { LiveOutput } from "./live-output.ts";
import { finishedCalls, readBase } from "./read-log.ts";

/** Everything a run at work has in its hands. Opened when first needed, gone when the run waits. */
export interface ActiveRun {
  readonly spec: RunSpec;
  readonly github: GitHub;
  /** Where what is printed and said goes while it is, for those who watch. */
  readonly live: LiveOutput;
  /** The whole log, read on from where the last call ended. */
  log(): Promise<readonly LoggedEvent[]>;
  /** Opens the tip of a branch: the first time, before the base is fixed. */
  openTip(branch: string, signal: AbortSignal): Promise<BaseCommit>;
  /** The sandbox at the run's base with its stored changes. */
  sandbox(signal: AbortSignal): Promise<GitSandbox>;
  tools(signal: AbortSignal): Promise<Toolbox>;
  /** Forgets the sandbox, so that changes written from elsewhere are read again. */
  discardSandbox(): Promise<void>;
  close(): Promise<void>;
}

export interface ActiveRunOptions {
  store: Store;
  openGitHub: OpenGitHub;
  openSandbox: (options: OpenSandbox) => Promise<GitSandbox>;
  openToolbox: (worker: WorkerDefinition, services: ToolServices) => Promise<Toolbox>;
  catalog: WorkerCatalog;
  services: SharedServices;
  live: LiveOutput;
}

/** What a deployment lends to every tool, whatever the run. */
export type SharedServices = Pick<ToolServices, "sanitize" | "executors" | "web" | "customToolsFrom">;

export async function openActiveRun(runId: string, options: ActiveRunOptions): Promise<ActiveRun> {
  const { store, catalog, live } = options;
  const row = await store.findRun(runId);
  if (!row) throw new Error(`There is no run ${runId}`);

  const { spec } = row;
  const github = options.openGitHub(spec.origin);
  let events: LoggedEvent[] = [];
  let reading: Promise<void> = Promise.resolve();
  let opened: Promise<GitSandbox> | undefined;
  let toolbox: Promise<Toolbox> | undefined;

  /** One reading after the other, so that no event is taken twice. */
  function log(): Promise<readonly LoggedEvent[]> {
    reading = reading.catch(() => undefined).then(readOn);
    return reading.then(() => events);
  }

  async function readOn(): Promise<void> {
    const news = await store.log(runId, events.at(-1)?.id ?? 0);
    if (news.length > 0) events = [...events, ...news];
  }

  async function open(at: OpenSandbox["at"], signal: AbortSignal): Promise<GitSandbox> {
    const [source, changes, policy] = await Promise.all([
      sourceOf(github),
      storedChanges(store, spec),
      policiesOf(store, spec),
    ]);
    return options.openSandbox({ source, at, changes, policy, signal });
  }

  async function openTip(branch: string, signal: AbortSignal): Promise<BaseCommit> {
    opened = open({ branch }, signal);
    return (await remember(opened)).base;
  }

  /** A failed opening is not kept: the next one tries again. */
  function remember(opening: Promise<GitSandbox>): Promise<GitSandbox> {
    opening.catch(() => {
      if (opened === opening) opened = undefined;
    });
    return opening;
  }

  async function sandbox(signal: AbortSignal): Promise<GitSandbox> {
    if (!opened) {
      const base = readBase(await log());
      if (!base) throw new Error(`Run ${runId} has no base commit yet`);
      opened ??= open(base, signal);
    }
    return remember(opened);
  }

  async function tools(signal: AbortSignal): Promise<Toolbox> {
    const tree = await sandbox(signal);
    await log();
    toolbox ??= options.openToolbox(spec.worker, {
      spec,
      workspace: tree,
      sandbox: tree,
      github,
      branch: branchOf(spec),
      history: () => finishedCalls(events),
      workers: () => catalog.list(github),
      ...options.services,
      workerDirectory: spec.workerSource === "deployment" ? catalog.directory : undefined,
    });
    const opening = toolbox;
    opening.catch(() => {
      // One that was opened anew meanwhile stays.
      if (toolbox === opening) toolbox = undefined;
    });
    return opening;
  }

  async function reload(): Promise<void> {
    const closing = toolbox;
    opened = undefined;
    toolbox = undefined;
    await closing?.then((open) => open.close());
  }

  async function close(): Promise<void> {
    live.forget(runId);
    await reload();
  }

  return { spec, github, live, log, openTip, sandbox, tools, discardSandbox: reload, close };
}

async function storedChanges(store: Store, spec: RunSpec): Promise<StepChanges[]> {
  const [inherited, own] = await Promise.all([inheritedChanges(store, spec), store.changesOf(spec.id)]);
  return [...inherited, ...own];
}

/** From the root's policy down to the run's own: a child sees and may do no more than each worker above it. */
async function policiesOf(store: Store, { parentId, worker }: RunSpec): Promise<SandboxPolicy[]> {
  const parent = parentId ? await store.findRun(parentId) : undefined;
  const above = parent ? await policiesOf(store, parent.spec) : [];
  return worker.sandbox ? [...above, worker.sandbox] : above;
}

/** A child starts from its parent's tree as it was then, and the parent from its own parent's. */
async function inheritedChanges(store: Store, spec: RunSpec): Promise<StepChanges[]> {
  if (!spec.parentId) return [];
  const parent = await store.findRun(spec.parentId);
  if (!parent) return [];
  const above = await inheritedChanges(store, parent.spec);
  return [...above, ...(await store.changesOf(spec.parentId, spec.parentChanges))];
}

async function sourceOf(github: GitHub): Promise<SandboxSource> {
  const { installationId, repositoryId, owner, repo } = github.repository;
  const { cloneUrl } = await github.getRepository();
  return {
    tenant: `${installationId}/${repositoryId ?? `${owner}/${repo}`}`.toLowerCase(),
    url: cloneUrl,
    token: (access) => github.createGitToken(access),
  };
}
