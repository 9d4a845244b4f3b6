import picomatch from "picomatch";
import type { ApprovalDecisionType } from "#domain/approval.ts";
import { BlockedError, ToolError } from "#domain/errors.ts";
import type { Preview, PreviewSection } from "#domain/preview.ts";
import type { NeedsApproval } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { FileVersion } from "#sandbox/diff-file.ts";
import { type FileVersions, previewFiles } from "#sandbox/preview-files.ts";
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
  /** True if approval is needed where no zone decides. */
  otherwise: boolean;
  zones?: ZoneApprovalConfig;
}

/**
 * Returns whether an operation on a path needs approval. Throws a BlockedError if the zone forbids it, and a ToolError if
 * the path is read-only, so that no approval is requested for a change that cannot be made.
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
  const decision = zoneDecision(workspace, resolved, operation, zones);
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
function zoneDecision(
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
const protectedPatterns = [
  // Dot folders, at any depth: .github, .husky, .vscode, .claude …
  "**/.*/**",
  // CI, ownership, git and package managers.
  "**/{CODEOWNERS,.gitmodules,.gitattributes,.npmrc,.yarnrc,.yarnrc.yml,.pnpmfile.cjs,bunfig.toml,.envrc,.ripgreprc}",
  "**/{.gitlab-ci.yml,.travis.yml,.pre-commit-config.yaml,azure-pipelines.yml,jenkinsfile,action.yml,action.yaml}",
  // Instructions and settings of agents.
  "**/{agents.md,agent.md,claude.md,claude.local.md,gemini.md,copilot-instructions.md,skill.md}",
  "**/{.claude.json,.mcp.json,.cursorrules,.windsurfrules}",
  "**/{*.worker,golem-forge.config.yaml,golem-forge.config.yml}",
  // What builds and tests run by themselves.
  "**/{makefile,gnumakefile,justfile,dockerfile,dockerfile.*,*.dockerfile,conftest.py}",
  "**/{vitest,vite,jest,eslint,babel}.config.*",
  // Dependencies.
  "**/{package.json,package-lock.json,npm-shrinkwrap.json,yarn.lock,pnpm-lock.yaml,bun.lock,bun.lockb,deno.lock}",
  "**/{cargo.lock,poetry.lock,uv.lock,pdm.lock,pipfile.lock,gemfile.lock,composer.lock,go.sum,flake.lock}",
  "**/{packages.lock.json,gradle.lockfile,mix.lock,pubspec.lock,podfile.lock,package.resolved}",
];

const matchesProtected = picomatch(protectedPatterns, { dot: true, nocase: true });

/** True for files that control CI, builds, tests, ownership, dependencies or agents: changing them always needs approval. Takes a resolved path. */
export function isProtectedPath(path: string): boolean {
  return matchesProtected(path.normalize("NFKC"));
}

/** The preview of file changes: the given texts first, then every file, the protected ones before the others. */
export async function previewChanges(
  files: readonly FileVersions[],
  texts: readonly PreviewSection[] = [],
): Promise<Preview> {
  const [protectedFiles, others] = [files.filter(isProtected), files.filter((file) => !isProtected(file))];
  return { sections: [...texts, ...(await previewFiles([...protectedFiles, ...others]))] };
}

/** The preview of one file that gets this content, or none. */
export async function previewWrite(
  workspace: Workspace,
  path: string,
  content: Uint8Array | string | undefined,
  { executable }: { executable?: boolean | undefined } = {},
): Promise<FileVersions> {
  const before = await versionOf(workspace, path);
  const isExecutable = executable ?? before?.executable ?? false;
  return {
    path,
    before,
    after: content === undefined ? undefined : { content: Buffer.from(content), executable: isExecutable },
  };
}

/** A file as it is now; undefined where none exists. */
export async function versionOf(workspace: Workspace, path: string): Promise<FileVersion | undefined> {
  if (!(await workspace.exists(path))) return undefined;
  const { type, executable } = await workspace.stat(path);
  if (type === "directory" || type === "submodule") return undefined;
  return { content: await workspace.readBytes(path), executable, ...(type === "symlink" && { isLink: true }) };
}

function isProtected({ path }: FileVersions): boolean {
  return isProtectedPath(path);
}

/** The new state of a file; without content it is deleted. */
export interface FileState {
  path: string;
  content: Uint8Array | string | undefined;
  /** Default: as it was. */
  executable?: boolean | undefined;
}

/**
 * Brings files to their new states: all of them, or none. Deletes first, so that a folder may replace a file. If a change
 * fails, the changes made so far are undone and the error is thrown.
 */
export async function applyFileChanges(workspace: Workspace, changes: readonly FileState[]): Promise<void> {
  const ordered = [
    ...changes.filter(({ content }) => content === undefined),
    ...changes.filter(({ content }) => content !== undefined),
  ];
  const undo: FileState[] = [];
  try {
    for (const change of ordered) {
      undo.unshift(await currentState(workspace, change.path));
      await applyState(workspace, change);
    }
  } catch (error) {
    for (const state of undo) await applyState(workspace, state);
    throw error;
  }
}

async function currentState(workspace: Workspace, path: string): Promise<FileState> {
  if (!(await workspace.exists(path))) return { path, content: undefined };
  const { type, executable } = await workspace.stat(path);
  // A folder in the place of a file makes the change fail; there is nothing to restore.
  if (type === "directory") return { path, content: undefined };
  return { path, content: await workspace.readBytes(path), executable };
}

async function applyState(workspace: Workspace, { path, content, executable }: FileState): Promise<void> {
  if (content !== undefined) await workspace.write(path, content, executable === undefined ? {} : { executable });
  else if ((await workspace.exists(path)) && (await workspace.stat(path)).type !== "directory") {
    await workspace.remove(path);
  }
}
