import type { z } from "zod";
import type { GitHub } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { RunSpec } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Executors } from "#executors/create-executors.ts";
import type { GitSandbox } from "#sandbox/git-sandbox.ts";
import type { WebAccess } from "#toolsets/web/web-access.ts";

/** A tool call of this run that is over, as the log has it. */
export interface FinishedCall {
  callId: string;
  tool: string;
  args: unknown;
  result: ToolResult;
  /** Which call of the model asked for it, counted from 1; for a person's call, how many there had been. */
  step: number;
  /** A person asked for it with a command: the model has not seen its result as the answer to a call. */
  byPerson?: boolean;
}

/** What the runtime lends to toolsets: all a tool can ever reach. */
export interface ToolServices {
  spec: RunSpec;
  /** The tree as this worker may see it. */
  workspace: Workspace;
  /** The whole sandbox, for git and the pull request. */
  sandbox: GitSandbox;
  /** The run's own repository; every target is fixed by `spec.origin`. */
  github: GitHub;
  /** The run's own branch, `golem/<issue>-<run>`. */
  branch: string;
  /** Every finished call, oldest first: what was read, written and repeated. */
  history(): readonly FinishedCall[];
  /** The workers this deployment and repository know, for the tools that call them. */
  workers(): Promise<{ name: string; description?: string }[]>;
  /** Every text that leaves passes here: held secrets, token shapes, mentions, closing keywords, size. `plain` for titles and commit messages. */
  sanitize(text: string, kind?: "markdown" | "plain"): string;
  /** The directory of the deployment's own worker file; undefined for a worker of the repository. */
  workerDirectory?: string;
  /** Where commands run; the process's own when a deployment configures none. */
  executors?: Executors;
  /** What a deployment lends of the web beyond its public part: a search provider, hosts of its own network. */
  web?: WebAccess;
  /** Whether a repository's own `tools.ts` may run; default: none may. */
  customToolsFrom?(owner: string, repo: string): boolean;
  /** Keeps what must be released when the run's tools are put away: a connection, a process. */
  onClose?(release: () => Promise<void>): void;
}

/** A named group of tools a worker may be given. */
// biome-ignore lint/suspicious/noExplicitAny: the registry holds toolsets of every configuration
export interface Toolset<Config = any> {
  name: string;
  /** Other names a worker file may use for it. */
  aliases?: readonly string[];
  config: z.ZodType<Config>;
  /** Throws a UserError for a configuration that cannot work. */
  create(config: Config, services: ToolServices): NamedTool[] | Promise<NamedTool[]>;
}
