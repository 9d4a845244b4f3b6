import { parseRepositorySettings, type RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import type { GuidanceFile } from "#domain/events.ts";
import type { GitHub } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { ListedWorker, WorkerCatalog, WorkerFiles } from "#runtime/start/worker-catalog.ts";
import type { EffectCompletion } from "#runtime/store/store.ts";
import type { BaseCommit, Sandbox } from "#sandbox/sandbox.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";

/** The settings and worker files of the repository a run works on, and the permissions of its people. */
export type RepositoryAccess = Pick<
  GitHub,
  "readFile" | "listNames" | "getPermission" | "confirmPermission" | "findAccount" | "isTeamMember"
>;

/** Reads the default branch's settings, cached for at most `maxAgeMs`. Throws a UserError if invalid. */
export async function readSettings(
  repository: Pick<RepositoryAccess, "readFile">,
  options: { maxAgeMs?: number } = {},
): Promise<RepositorySettings> {
  return parseRepositorySettings(await repository.readFile(settingsPath, options));
}

/** The data an effect stores, and the callbacks of its changes to the workspace. */
export interface EffectResult extends Omit<EffectCompletion, "runId" | "key"> {
  /** Called after the result was stored. */
  afterCommit?: () => void;
  /** Called instead if the effect was cancelled before its result was stored. */
  afterCancel?: () => void;
  /** Returns the result to store if others have changed the run's files meanwhile. Default: the effect is performed again. */
  mergeAgain?: () => Promise<EffectResult>;
}

/** The files of an active run, with the tools that work on them. */
export interface RunWorkspace {
  readonly base: BaseCommit;
  /** The number of the run's stored change sets that these files contain. Undefined if other runs also change them. */
  readonly changeSets?: number;
  /** The changes that have not been stored yet. */
  readonly tracking: Pick<Sandbox, "pendingChanges" | "markStored" | "rollback">;
  /** Returns all changes as a unified diff. Undefined if people see the files themselves. */
  diff?(): Promise<string>;
  /**
   * Set if several runs share these files. `begin` waits until no other run is changing them, and resolves to a
   * function that lets the next run begin. Changes are then stored with the root run, in the order they were made, or
   * not at all.
   */
  readonly shared?: { begin(): Promise<() => void>; storesChanges: boolean };
  /** Reads the maintainers' guidance for a task. Undefined if a program or a person runs the worker on their own files. */
  readGuidance?(task: string): Promise<GuidanceFile[]>;
  /** Reads a file that the run can see. Throws a ToolError for others. */
  readFile(path: string): Promise<Uint8Array>;
  openToolbox(history: () => readonly FinishedCall[]): Promise<Toolbox>;
}

/** The environment of runs: repositories on GitHub, or the files of a program or a checkout on this machine. */
export interface RunEnvironment {
  readonly catalog: Pick<WorkerCatalog, "find"> & {
    list(files: WorkerFiles): Promise<Omit<ListedWorker, "source">[]>;
  };
  repository(spec: RunSpec): RepositoryAccess;
  /** Opens a run's files with its stored changes. Without a base, opens them for the first time. */
  openWorkspace(spec: RunSpec, base: BaseCommit | undefined, signal: AbortSignal): Promise<RunWorkspace>;
  /** Returns the system prompt. */
  instructions(spec: RunSpec): string;
}
