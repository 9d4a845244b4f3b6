import type { NamedTool } from "#domain/tool.ts";
import { createFilesystemTools, type FilesystemToolsOptions } from "#toolsets/filesystem/filesystem-toolset.ts";

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
