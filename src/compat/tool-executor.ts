import type { ToolContext } from "#domain/tool.ts";
import { failedResult } from "#toolsets/failed-result.ts";
import type { ForeignTool } from "./adapt-tool.ts";
import { type DisplayResult, DisplayTool, toDisplayResult } from "./display-tool.ts";
import { ToolManager, type ToolManagerOptions } from "./tool-manager.ts";

/** Runs tools by name and gives every result as a text for the model and a display for people. */
export class ToolExecutor {
  readonly #manager: ToolManager;

  constructor(tools: Iterable<ForeignTool>, options: ToolManagerOptions = {}) {
    this.#manager = new ToolManager(tools, options);
  }

  /** Never rejects for what a tool does: failures are results with an error. */
  async execute(toolName: string, params: Record<string, unknown>, context?: ToolContext): Promise<DisplayResult> {
    const tool = this.#manager.getTool(toolName);
    // A tool of this kind has no approval of its own: calling it here is the program's decision.
    if (tool instanceof DisplayTool) return tool.execute(params, context);
    if (!tool) return toDisplayResult(failedResult(`Unknown tool: ${toolName}.`, { code: "UNKNOWN_TOOL" }));
    return toDisplayResult(await this.#manager.call(toolName, params));
  }
}
