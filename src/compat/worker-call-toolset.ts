import type { NamedTool } from "#domain/tool.ts";
import { createWorkerTools } from "#toolsets/workers/workers-toolset.ts";

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
