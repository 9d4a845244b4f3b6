import type { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import type { GitHub } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { FoundWorker, RunSpec } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Executors } from "#executors/create-executors.ts";
import type { GitSandbox } from "#sandbox/sandbox.ts";
import type { WebAccess } from "#toolsets/web/safe-fetch.ts";

/** A finished tool call of the run, from the log. */
export interface FinishedCall {
  callId: string;
  tool: string;
  args: unknown;
  result: ToolResult;
  /** The number of the model call that requested it, from 1; for a call by a person, the number of model calls so far. */
  step: number;
  /** True if a person requested it with a command, so the model has not received its result. */
  byPerson?: boolean;
}

/** The services that the runtime provides to toolsets: everything that a tool can access. */
export interface ToolServices {
  spec: RunSpec;
  /** The files that this worker may access. */
  workspace: Workspace;
  /** The complete sandbox, for git and the pull request. */
  sandbox: GitSandbox;
  /** The run's own repository; `spec.origin` determines every target. */
  github: GitHub;
  /** The run's own branch, `golem/<issue>-<run>`. */
  branch: string;
  /** Every finished call, oldest first. */
  history: () => readonly FinishedCall[];
  /** The approvals of the run and its relatives. Default: none. */
  approvals?(): Promise<readonly Approval[]>;
  /** The workers of this deployment and repository, for the tools that call them. */
  workers(): Promise<{ name: string; description?: string }[]>;
  /** Returns the worker that a call starts, to which its approval is bound. Throws a UserError for an unknown one. */
  findWorker?(name: string): Promise<FoundWorker>;
  /** Redacts secrets, defuses mentions and closing keywords, limits the size. `plain`: titles and commit messages. */
  sanitize(text: string, kind?: "markdown" | "plain"): string;
  /** Removes secrets. Default: what looks like a well-known token. */
  redact?(text: string): string;
  /** Returns the repository's limit of open pull requests by this App; undefined if there is none. */
  maxOpenPullRequests?(): Promise<number | undefined>;
  /** True if the repository's settings request a check run with review findings. Default: false. */
  usesCheckRun?(): Promise<boolean>;
  /** Tells people, once per installation, that a permission is missing. */
  reportMissingPermission?(permission: string): Promise<void>;
  /** The directory of the deployment's worker file; undefined for a worker of the repository. */
  workerDirectory?: string;
  /** The directory of the program that the worker belongs to. Default: that of the worker file. */
  programDirectory?: string;
  /** Runs commands; default: the executors of this process. */
  executors?: Executors;
  /** Folders with programs that the deployment's policy provides in the OS tier. Default: none. */
  sandboxTools?: readonly string[];
  /** Returns the repository's commands that install its dependencies, for workers that define none. */
  setupCommands?(): Promise<readonly string[] | undefined>;
  /** Patterns for the hosts that the deployment's policy lets commands reach if a person approves. Default: none. */
  networkHosts?: readonly string[];
  /** The search provider, and the fetchable hosts in the deployment's own network. */
  web?: WebAccess;
  /** True if the repository's own `tools.ts` may run. Default: never. */
  customToolsFrom?(owner: string, repo: string): boolean;
  /** Registers a function that releases a resource, such as a connection or a process, when the toolbox is closed. */
  onClose?(release: () => Promise<void>): void;
}

/** A named group of tools that a worker can use. */
// biome-ignore lint/suspicious/noExplicitAny: the registry holds toolsets of every configuration
export interface Toolset<Config = any> {
  name: string;
  /** Other names a worker file may use for it. */
  aliases?: readonly string[];
  config: z.ZodType<Config>;
  /** Creates the tools. Throws a UserError for an invalid configuration. */
  create(config: Config, services: ToolServices): NamedTool[] | Promise<NamedTool[]>;
}
