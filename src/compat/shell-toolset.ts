import type { ApprovalDecisionType } from "#domain/approval.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Executors } from "#executors/create-executors.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { shellToolset } from "#toolsets/shell/shell-toolset.ts";
import { programServices } from "./program-services.ts";

/** The settings of the toolset `shell`, and the files that commands see. */
export interface ShellToolsetOptions {
  rules?: readonly { pattern: string; approval?: ApprovalDecisionType }[];
  /** For commands that no rule covers. */
  default?: { approval?: ApprovalDecisionType };
  /** Seconds. */
  timeout?: number;
  max_timeout?: number;
  /** Default: an empty workspace in memory. */
  sandbox?: Workspace;
  executors?: Executors;
}

/** The shell tool over one workspace as a class. */
export class ShellToolset {
  readonly #tools: NamedTool[];

  constructor({ sandbox = createMemoryWorkspace(), executors, ...settings }: ShellToolsetOptions = {}) {
    const tools = shellToolset.create(shellToolset.config.parse(settings), programServices(sandbox, executors));
    this.#tools = tools as NamedTool[];
  }

  getTools(): NamedTool[] {
    return this.#tools;
  }
}
