import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";

/** Throws a ToolError `READ_ONLY` for a path that the worker's zones keep as it is. */
export function assertWritable(view: Pick<Workspace, "resolve" | "ruleFor">, path: string): void {
  const rule = view.ruleFor(view.resolve(path));
  if (rule.mode === "rw" && rule.write !== "blocked") return;
  throw new ToolError(`${path} would change, and it is read-only for this worker.`, { code: "READ_ONLY" });
}
