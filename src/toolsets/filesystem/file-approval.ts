import picomatch from "picomatch";
import type { ApprovalDecisionType } from "#domain/approval.ts";
import { BlockedError, ToolError } from "#domain/errors.ts";
import type { NeedsApproval } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";

export type FileOperation = "write" | "delete";

/**
 * Approval by the name of a zone, as in `{ scratch: { write: "preApproved" } }`. In a sandbox without zones the name is
 * that of a top-level folder. Where the sandbox's own rule is stricter, that rule applies.
 */
export type ZoneApprovalConfig = Record<string, Partial<Record<FileOperation, ApprovalDecisionType>>>;

/** The options of every file tool. */
export interface FileToolOptions<Input> {
  /** Replaces the tool's own rule; an operation that a zone blocks stays blocked. */
  needsApproval?: boolean | NeedsApproval<Input>;
  zoneApprovalConfig?: ZoneApprovalConfig;
  /** The run's finished calls. With them, lines must have been read before they are edited. */
  history?: () => readonly FinishedCall[];
}

export interface FileApprovalQuestion {
  tool: string;
  workspace: Workspace;
  operation: FileOperation;
  path: string;
  /** Whether approval is needed where no zone decides. */
  otherwise: boolean;
  zones?: ZoneApprovalConfig;
}

/**
 * Returns whether an operation on a path needs approval. Throws a BlockedError if the zone forbids it, and a ToolError if
 * the path is read-only: nobody is asked for a change that cannot be made.
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
  const name = resolved || "The root folder";
  if (workspace.ruleFor(resolved).mode === "ro") {
    throw new ToolError(`${name} cannot be changed: it is read-only for this worker.`, {
      code: "READ_ONLY",
      suggestion: "Write to another folder, or report that this file would have to change.",
    });
  }
  const decision = decisionFor(workspace, resolved, operation, zones);
  if (decision === "blocked") {
    throw new BlockedError(tool, `this worker may not ${operation} ${resolved || "the root folder"}`);
  }

  if (isProtectedPath(resolved)) return true;
  return decision === undefined ? otherwise : decision === "ask";
}

/** Throws a BlockedError if the zone forbids the operation: for tools whose approval is decided elsewhere. */
export function refuseBlocked(question: Omit<FileApprovalQuestion, "otherwise">): void {
  needsFileApproval({ ...question, otherwise: false });
}

const strictness: ApprovalDecisionType[] = ["blocked", "ask", "preApproved"];

/** The stricter of the configuration and the sandbox's own rule, so that settings never widen what the sandbox allows. */
function decisionFor(
  workspace: Workspace,
  path: string,
  operation: FileOperation,
  zones: ZoneApprovalConfig = {},
): ApprovalDecisionType | undefined {
  const rule = workspace.ruleFor(path);
  const zone = rule.zone || (path.split("/")[0] ?? "");
  const configured = Object.hasOwn(zones, zone) ? zones[zone]?.[operation] : undefined;
  const decisions = [configured, rule[operation]];
  return strictness.find((decision) => decisions.includes(decision));
}

/** The files that an operation on a path affects: the path itself, and every file below it. */
export async function filesAt(workspace: Workspace, path: string): Promise<string[]> {
  const resolved = workspace.resolve(path);
  if (!(await workspace.exists(resolved))) return [resolved];
  const { type } = await workspace.stat(resolved);
  if (type !== "directory") return [resolved];

  const entries = await workspace.list(resolved, { recursive: true });
  return [resolved, ...entries.filter((entry) => entry.type !== "directory").map((entry) => entry.path)];
}

// A change to one of these runs code, grants rights or instructs agents outside this run.
const patterns = [
  // Dot folders, at any depth: .github, .husky, .vscode, .claude …
  "**/.*/**",
  // CI, ownership, git and package managers.
  "**/{CODEOWNERS,.gitmodules,.gitattributes,.npmrc,.yarnrc,.yarnrc.yml,.pnpmfile.cjs,bunfig.toml,.envrc,.ripgreprc}",
  "**/{.gitlab-ci.yml,.travis.yml,.pre-commit-config.yaml,azure-pipelines.yml,jenkinsfile,action.yml,action.yaml}",
  // Instructions and settings of agents.
  "**/{agents.md,agent.md,claude.md,claude.local.md,gemini.md,copilot-instructions.md,skill.md}",
  "**/{.claude.json,.mcp.json,.cursorrules,.windsurfrules}",
  // What builds and tests run by themselves.
  "**/{makefile,gnumakefile,justfile,dockerfile,dockerfile.*,*.dockerfile,conftest.py}",
  "**/{vitest,vite,jest,eslint,babel}.config.*",
  // Dependencies.
  "**/{package.json,package-lock.json,npm-shrinkwrap.json,yarn.lock,pnpm-lock.yaml,bun.lock,bun.lockb,deno.lock}",
  "**/{cargo.lock,poetry.lock,uv.lock,pdm.lock,pipfile.lock,gemfile.lock,composer.lock,go.sum,flake.lock}",
  "**/{packages.lock.json,gradle.lockfile,mix.lock,pubspec.lock,podfile.lock,package.resolved}",
];

const isMatch = picomatch(patterns, { dot: true, nocase: true });

/** True for files that control CI, builds, tests, ownership, dependencies or agents: changing them always needs approval. Takes a resolved path. */
export function isProtectedPath(path: string): boolean {
  return isMatch(path.normalize("NFKC"));
}
