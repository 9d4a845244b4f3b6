import { randomUUID } from "node:crypto";
import type { ApprovalDecisionType } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import type { NamedTool } from "#domain/tool.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Executors } from "#executors/create-executors.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { GitSandbox } from "#sandbox/sandbox.ts";
import { createFilesystemTools, type FilesystemToolsOptions } from "#toolsets/filesystem/filesystem-toolset.ts";
import { shellToolset } from "#toolsets/shell/shell-toolset.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { createWorkerTools } from "#toolsets/workers/workers-toolset.ts";

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

/** The file tools over one workspace as a class. */
export class FilesystemToolset {
  readonly #tools: NamedTool[];

  constructor(options: FilesystemToolsOptions) {
    this.#tools = createFilesystemTools(options);
  }

  getTools(): NamedTool[] {
    return this.#tools;
  }
}

export interface WorkerCallToolsetOptions {
  /** The names of the workers that may be called. */
  allowed: readonly string[];
  /** Descriptions of these workers for the model. Default: none. */
  workers?: readonly { name: string; description?: string }[];
}

/** One tool for each worker that may be called, as a class. A WorkerRuntime with these workers answers the calls. */
export class WorkerCallToolset {
  readonly #tools: NamedTool[];

  constructor({ allowed, workers = allowed.map((name) => ({ name })) }: WorkerCallToolsetOptions) {
    this.#tools = createWorkerTools(allowed, workers);
  }

  getTools(): NamedTool[] {
    return this.#tools;
  }
}

/** The services that built-in toolsets need, for a program without a run: files and commands, but no repository. */
function programServices(workspace: Workspace, executors?: Executors): ToolServices {
  const id = randomUUID();
  const base = "base" in workspace ? (workspace.base as GitSandbox["base"]) : { commit: id, branch: "memory" };
  return {
    spec: {
      id,
      rootId: id,
      depth: 0,
      workerPath: "program",
      worker: WorkerDefinition.parse({ name: "program", instructions: "None" }),
      workerSource: "deployment",
      model: "none:none",
      origin: {
        installationId: 0,
        owner: "local",
        repo: "local",
        thread: 0,
        isPullRequest: false,
        requestedBy: "local",
      },
      createdAt: Date.now(),
    },
    workspace,
    sandbox: onlyWith<GitSandbox>(
      { ...workspace, base, log: async () => ({ commits: [], isComplete: true }) },
      "repository",
    ),
    github: onlyWith<GitHub>({}, "GitHub"),
    branch: base.branch,
    history: () => [],
    workers: async () => [],
    sanitize: (text) => text,
    ...(executors && { executors }),
  };
}

/** Creates an object with only some members. Using any other one throws a ToolError that names what is missing. */
export function onlyWith<T extends object>(
  given: Partial<T>,
  missing: string,
  suggestion = "Use tools that work on files alone.",
): T {
  return new Proxy(given as T, {
    get(target, name, receiver) {
      if (name in target || typeof name === "symbol" || name === "then") return Reflect.get(target, name, receiver);
      throw new ToolError(`No ${missing} is available.`, { code: "UNAVAILABLE", suggestion });
    },
  });
}
