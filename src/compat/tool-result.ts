import type { ToolResultDisplay } from "./return-display.ts";

/**
 * A result of any tool system with a type of this name: flat with `success`, with `llmContent` and `returnDisplay`, or
 * with `ok` and `value`. `T` is the type of that value.
 */
// biome-ignore lint/suspicious/noExplicitAny: a value is of any type unless the program says
export interface ToolResult<T = any> {
  success?: boolean;
  ok?: boolean;
  value?: T;
  llmContent?: string;
  returnDisplay?: ToolResultDisplay;
  // biome-ignore lint/suspicious/noExplicitAny: a string in one system, an object in the others
  error?: any;
  error_type?: string;
  suggestion?: string;
  // biome-ignore lint/suspicious/noExplicitAny: a flat result has the tool's own fields
  [field: string]: any;
}
