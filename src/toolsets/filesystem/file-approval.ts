import type { ApprovalDecisionType } from "#domain/approval.ts";
import { BlockedError, ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { isProtectedPath } from "./protected-paths.ts";

export type FileOperation = "write" | "delete";

/** Approval by the name of a zone, as in `{ scratch: { write: "preApproved" } }`; the sandbox's own rule stays if stricter. */
export type ZoneApprovalConfig = Record<string, Partial<Record<FileOperation, ApprovalDecisionType>>>;

export interface FileApprovalQuestion {
  tool: string;
  workspace: Workspace;
  operation: FileOperation;
  path: string;
  /** Whether a person is asked where no zone says anything. */
  otherwise: boolean;
  zones?: ZoneApprovalConfig;
}

/**
 * Whether a person must agree to this operation on this path. Throws a BlockedError where the zone forbids it, and a
 * ToolError where nothing can be changed: nobody is asked for what cannot work.
 */
export function needsFileApproval({
  tool,
  workspace,
  operation,
  path,
  otherwise,
  zones,
}: FileApprovalQuestion): boolean {
  const resolved = workspace.resolve(path);
  if (workspace.ruleFor(resolved).mode === "ro") {
    throw new ToolError(`${resolved || "The root folder"} cannot be changed: it is read-only for this worker.`, {
      code: "READ_ONLY",
    });
  }
  const decision = decisionFor(workspace, resolved, operation, zones);
  if (decision === "blocked") {
    throw new BlockedError(tool, `this worker may not ${operation} ${resolved || "the root folder"}`);
  }

  if (isProtectedPath(resolved)) return true;
  return decision === undefined ? otherwise : decision === "ask";
}

/** Throws a BlockedError where the zone forbids it: for tools whose approval was settled by someone else. */
export function refuseBlocked(question: Omit<FileApprovalQuestion, "otherwise">): void {
  needsFileApproval({ ...question, otherwise: false });
}

const strictness: ApprovalDecisionType[] = ["blocked", "ask", "preApproved"];

// The strictest of both, so that a worker's own settings never widen what its sandbox allows.
function decisionFor(workspace: Workspace, path: string, operation: FileOperation, zones: ZoneApprovalConfig = {}) {
  const zone = path.split("/")[0] ?? "";
  const configured = Object.hasOwn(zones, zone) ? zones[zone]?.[operation] : undefined;
  const given = [configured, workspace.ruleFor(path)[operation]];
  return strictness.find((decision) => given.includes(decision));
}

/** The files an operation on a path touches: the path itself, or every file below it. */
export async function filesAt(workspace: Workspace, path: string): Promise<string[]> {
  const resolved = workspace.resolve(path);
  if (!(await workspace.exists(resolved))) return [resolved];
  const { type } = await workspace.stat(resolved);
  if (type !== "directory") return [resolved];

  const entries = await workspace.list(resolved, { recursive: true });
  return [resolved, ...entries.filter((entry) => entry.type !== "directory").map((entry) => entry.path)];
}
