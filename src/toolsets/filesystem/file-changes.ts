import { formatPatch, type StructuredPatch } from "diff";
import type { ApprovalDecisionType } from "#domain/approval.ts";
import { runInTurns } from "#domain/async-work.ts";
import { BlockedError, ToolError } from "#domain/errors.ts";
import type { Preview, PreviewSection } from "#domain/preview.ts";
import type { DiffHunk, DiffResultValue } from "#domain/result.ts";
import type { NeedsApproval } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { differingPart, diffLines, type FileVersion, moveHunks } from "#sandbox/diff-file.ts";
import { plainName } from "#sandbox/paths.ts";
import { type FileVersions, previewFiles } from "#sandbox/preview-files.ts";
import { matchesPattern } from "#text/path-pattern.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import { countLineEndings, numberLines } from "./text-file.ts";

export type FileOperation = "write" | "delete";

/**
 * Approval by zone name, as in `{ scratch: { write: "preApproved" } }`. In a sandbox without zones, the name is that of
 * a top-level folder. If the sandbox's own rule is stricter, that rule applies.
 */
export type ZoneApprovalConfig = Record<string, Partial<Record<FileOperation, ApprovalDecisionType>>>;

export interface FileToolOptions<Input> {
  /** Replaces the tool's own rule. Operations that a zone blocks stay blocked. */
  needsApproval?: boolean | NeedsApproval<Input>;
  zoneApprovalConfig?: ZoneApprovalConfig;
  /** The run's finished calls. If given, lines must have been read before they are edited. */
  history?: () => readonly FinishedCall[];
}

const strictness: ApprovalDecisionType[] = ["blocked", "ask", "preApproved"];

/** The rules for the changes that a tool makes in a workspace. */
export class FileRules {
  readonly #tool: string;
  readonly #workspace: Workspace;
  readonly #zones: ZoneApprovalConfig;

  constructor(
    tool: string,
    workspace: Workspace,
    { zoneApprovalConfig }: Pick<FileToolOptions<unknown>, "zoneApprovalConfig">,
  ) {
    this.#tool = tool;
    this.#workspace = workspace;
    this.#zones = zoneApprovalConfig ?? {};
  }

  /**
   * True if an operation on a path needs approval; `otherwise` applies when no zone decides. Throws a BlockedError if the
   * zone forbids it, and a ToolError if the path is read-only, so that nobody is asked to approve an impossible change.
   */
  needsApproval(operation: FileOperation, path: string, otherwise: boolean): boolean {
    const resolved = this.#workspace.resolve(path);
    if (this.#workspace.ruleFor(resolved).mode === "ro") {
      throw new ToolError(`${resolved || "The root folder"} cannot be changed: it is read-only for this worker.`, {
        code: "READ_ONLY",
        suggestion: "Write to another folder, or report that this file would have to change.",
      });
    }
    const decision = this.#decide(operation, resolved);
    if (decision === "blocked") {
      throw new BlockedError(this.#tool, `this worker may not ${operation} ${resolved || "the root folder"}`);
    }

    if (isProtectedPath(resolved)) return true;
    return decision === undefined ? otherwise : decision === "ask";
  }

  /** Throws if the operation is impossible. For tools whose approval is decided elsewhere. */
  check(operation: FileOperation, path: string): void {
    this.needsApproval(operation, path, false);
  }

  /** Returns the stricter of the configuration and the sandbox's rule: settings never widen what the sandbox allows. */
  #decide(operation: FileOperation, path: string): ApprovalDecisionType | undefined {
    const rule = this.#workspace.ruleFor(path);
    const zone = rule.zone || (path.split("/")[0] ?? "");
    const configured = Object.hasOwn(this.#zones, zone) ? this.#zones[zone]?.[operation] : undefined;
    const decisions = [configured, rule[operation]];
    return strictness.find((decision) => decisions.includes(decision));
  }
}

/** Returns the paths that an operation affects: the path itself and every file below it. */
export async function filesAt(workspace: Workspace, path: string): Promise<string[]> {
  const resolved = workspace.resolve(path);
  if (!(await workspace.exists(resolved))) return [resolved];
  const { type } = await workspace.stat(resolved);
  if (type !== "directory") return [resolved];

  const entries = await workspace.list(resolved, { recursive: true });
  return [resolved, ...entries.filter((entry) => entry.type !== "directory").map((entry) => entry.path)];
}

// Changes to these files can run code, grant rights or instruct agents outside this run. The names are in lower case, at any
// depth, some with the folder that contains them; `*` matches any text.
const protectedNames: ReadonlySet<string> = new Set(
  [
    // CI, ownership, git and package managers.
    "{codeowners,bunfig.toml,lefthook{,-local}.{yml,yaml,toml}}",
    "{azure-pipelines,bitbucket-pipelines,appveyor,cloudbuild,buildspec,wercker,action}.{yml,yaml}",
    "{jenkinsfile{,.*},*.jenkinsfile,procfile{,.*},vagrantfile,tiltfile,earthfile,renovate.json,renovate.json5}",
    // Instructions and settings of agents and editors.
    "{agents,agent,claude,claude.local,gemini,qwen,crush,warp,copilot-instructions,skill}.md",
    "{*.prompt.md,*.instructions.md,*.chatmode.md,*.agent.md,*.mdc,opencode.json,mcp.json,devcontainer.json,*.code-workspace}",
    "{agents.override,conventions}.md",
    "*.worker",
    "golem-forge.config.{yml,yaml}",
    // Variables and versions of tools that shells and runtimes read on their own.
    "{mise.toml,mise.*.toml,devbox.json,devenv.nix,rust-toolchain{,.toml}}",
    // Files that builds and tests run automatically.
    "{makefile,gnumakefile,*.mk,justfile,rakefile,*.rake,thorfile,capfile,cakefile,gruntfile.*,gulpfile.*,jakefile{,.*},taskfile.{yml,yaml}}",
    "{dockerfile,dockerfile.*,*.dockerfile,containerfile,containerfile.*}",
    "{docker-compose,compose}{,.*}.{yml,yaml}",
    "*.config{,.*}.{js,cjs,mjs,jsx,ts,cts,mts,json}",
    "{conftest,noxfile,setup}.py",
    "{setup.cfg,tox.ini,pytest.ini,cmakelists.txt,meson.build,sconstruct,build.rs,build.zig,build.xml,*.sbt,binding.gyp}",
    "{gradlew,gradlew.bat,mvnw,mvnw.cmd,*.gradle,*.gradle.kts,build,workspace,{build,workspace,module}.bazel}",
    "{sitecustomize,usercustomize,hatch_build}.py",
    "{*.pth,*.cmake,cmakepresets.json,configure,configure.ac,makefile.{am,in},sconscript,wscript,gradle-wrapper.properties}",
    "{gradle.properties,global.json,dangerfile,dangerfile.*,fastfile,appfile,guardfile,nodemon.json,phpunit.xml{,.dist},default.nix,setup.hs,rebar.config,brewfile,skaffold.yaml,docker-bake.hcl}",
    "{turbo.json,nx.json,lerna.json,vercel.json,netlify.toml,wrangler.{toml,json,jsonc},serverless.{yml,yaml,ts,js},firebase.json,fly.toml,karma.conf.*,wdio.conf.*}",
    "{project.json,angular.json,rush.json,moon.yml,simple-git-hooks.json,buck,*.bzl,snakefile}",
    "{fabfile.py,dodo.py,conanfile.{py,txt},cabal.project{,.*},*.cabal,stack.yaml,ansible.cfg,gradle/*.versions.toml}",
    "{build.{pl,sc,mill},makefile.pl,dune,xmake.lua,premake*.lua,webpack.*.js,nextflow.config,dbt_project.yml,mkdocs.{yml,yaml}}",
    "{pylintrc,mypy.ini,phpstan.neon{,.dist},psalm.xml{,.dist},{rector,ecs}.php}",
    "{bitrise,codemagic,amplify,render,helmfile,pulumi}.{yml,yaml}",
    // Dependencies: manifests and lockfiles.
    "{package.json,package.json5,package.yaml,package-lock.json,npm-shrinkwrap.json,yarn.lock,pnpm-lock.yaml,pnpm-workspace.yaml,bun.lock,bun.lockb}",
    "{deno.json,deno.jsonc,deno.lock,pyproject.toml,pipfile,pipfile.lock,poetry.lock,uv.lock,pdm.lock,environment.{yml,yaml}}",
    "{*requirements*.{txt,in},constraints.txt,requirements/*.txt,cargo.toml,cargo.lock,go.mod,go.sum,go.work,go.work.sum}",
    "{gemfile,gemfile.lock,*.gemspec,composer.json,composer.lock,pom.xml,gradle.lockfile,mix.exs,mix.lock}",
    "{*.csproj,*.fsproj,*.vbproj,directory.*.props,directory.*.targets,packages.config,packages.lock.json,nuget.config}",
    "{package.swift,package.resolved,podfile,podfile.lock,pubspec.yaml,pubspec.lock,flake.nix,flake.lock,shell.nix}",
    "{paket.dependencies,paket.lock,cartfile{,.*},conda-lock.yml,pixi.toml,pixi.lock}",
    "{project.clj,{deps,bb,shadow-cljs}.edn,cpanfile{,.*},*.rockspec,*.opam,dune-project,elm.json,gleam.toml,rebar.lock}",
    "{vcpkg.json,jsr.json,bower.json,import_map.json,berksfile{,.*},puppetfile}",
  ].flatMap(expandBraces),
);

/** Files that begin with a dot are settings of programs, and often code that these run, except for lists of files and the like. */
const settings = /^\.(?!(?:[\w-]*ignore|gitkeep|keep|editorconfig|mailmap|nojekyll)$)/i;

const namePatterns = [...protectedNames]
  .filter((name) => name.includes("*"))
  .map((pattern) => ({
    pattern,
    start: pattern.slice(0, pattern.indexOf("*")),
    end: pattern.slice(pattern.lastIndexOf("*") + 1),
  }));

/** True for a resolved path that controls CI, builds, tests, ownership, dependencies or agents, and always asks. */
export function isProtectedPath(path: string): boolean {
  const names = path.split(/[/\\]/);
  // On Linux, a colon is part of a name: `x:.rake` ends in `.rake`.
  const plain = names.map(plainName);
  return hasProtectedName(names) || (plain.join("/") !== names.join("/") && hasProtectedName(plain));
}

/** True for a file in a folder that begins with a dot, such as .github, .husky or .vscode, and for a protected name. */
function hasProtectedName(names: readonly string[]): boolean {
  if (names.slice(0, -1).some((folder) => folder.startsWith(".")) || settings.test(names.at(-1) ?? "")) return true;
  const [name = "", folder = ""] = names.slice(-2).reverse().map(foldCase);
  const inFolder = `${folder}/${name}`;
  return (
    protectedNames.has(name) ||
    namePatterns.some(({ pattern, start, end }) => {
      const text = start.includes("/") ? inFolder : name;
      // Most names are ruled out by their ends, which takes a tenth of the time.
      return text.endsWith(end) && text.startsWith(start) && matchesPattern(pattern, text);
    })
  );
}

/** Folds the case of the letters from a to z, including the long s, which is an s in upper case. */
function foldCase(name: string): string {
  return name.toLowerCase().replaceAll("ſ", "s");
}

/** Returns the names that a pattern with choices matches: `{a,b}.md` matches `a.md` and `b.md`. */
function expandBraces(pattern: string): string[] {
  const [, before = "", choices, after = ""] = /^(.*)\{([^{}]*)\}(.*)$/.exec(pattern) ?? [];
  if (choices === undefined) return [pattern];
  return choices.split(",").flatMap((choice) => expandBraces(before + choice + after));
}

/** True if a text names a path as a separate word. */
export function namesPath(text: string, path: string): boolean {
  return text.split(/[\s'"`;|&<>(){}=,]+/).some((word) => word.replace(/^(?:\.?\/)+/, "") === path);
}

/** Previews file changes: the given texts first, then every file, starting with the protected ones. */
export async function previewChanges(
  files: readonly FileVersions[],
  texts: readonly PreviewSection[] = [],
): Promise<Preview> {
  const { protected: first = [], other: rest = [] } = Object.groupBy(files, ({ path }) =>
    isProtectedPath(path) ? "protected" : "other",
  );
  return { sections: [...texts, ...(await previewFiles([...first, ...rest]))] };
}

/** Previews writing this content to a file, or deleting it if there is none. */
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

/** Returns the current version of a file; undefined if it does not exist. */
export async function versionOf(workspace: Workspace, path: string): Promise<FileVersion | undefined> {
  if (!(await workspace.exists(path))) return undefined;
  const { type, executable } = await workspace.stat(path);
  if (type === "directory" || type === "submodule") return undefined;
  return { content: await workspace.readBytes(path), executable, ...(type === "symlink" && { isLink: true }) };
}

/** The new state of a file. Without content, it is deleted. */
export interface FileState {
  path: string;
  content: Uint8Array | string | undefined;
  /** Default: unchanged. */
  executable?: boolean | undefined;
}

/** Changes all files or none. Deletes first, so that a folder may replace a file. Throws the first error. */
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
  // If a folder is in the file's place, the change fails and there is nothing to restore.
  if (type === "directory") return { path, content: undefined };
  return { path, content: await workspace.readBytes(path), executable };
}

async function applyState(workspace: Workspace, { path, content, executable }: FileState): Promise<void> {
  if (content !== undefined) await workspace.write(path, content, executable === undefined ? {} : { executable });
  else if ((await workspace.exists(path)) && (await workspace.stat(path)).type !== "directory") {
    await workspace.remove(path);
  }
}

/** A change of a file's text; undefined if the file does not exist. */
interface TextChange {
  path: string;
  before: string | undefined;
  after: string | undefined;
}

/** A change of a file's text with its hunks, computed once. */
interface ComparedTexts extends TextChange {
  hunks: DiffHunk[];
  additions: number;
  deletions: number;
}

/** Longer originals are left out of the result, because the log keeps every result. */
const maxOriginalCharacters = 100_000;
/** The maximum number of changed lines, and of their characters, that the model is shown. */
const maxShownLines = 60;
const maxShownCharacters = 12_000;

/** Longer parts that differ are not compared line by line. */
const maxComparedCharacters = 1_000_000;

/** Compares a file's text before and after a change. Changes that are too long have no hunks and count as replacements. */
export async function compareTexts(change: TextChange): Promise<ComparedTexts> {
  const part = differingPart(Buffer.from(change.before ?? ""), Buffer.from(change.after ?? ""));
  const [before, after] = [part.before.toString("utf8"), part.after.toString("utf8")];
  if (before.length + after.length > maxComparedCharacters && before !== after) {
    return { ...change, hunks: [], additions: countLineEndings(after), deletions: countLineEndings(before) };
  }
  const hunks = moveHunks(await runInTurns(diffLines(before, after)), part);
  const lines = hunks.flatMap((hunk) => hunk.lines);
  return {
    ...change,
    hunks,
    additions: lines.filter((line) => line.startsWith("+")).length,
    deletions: lines.filter((line) => line.startsWith("-")).length,
  };
}

/** Returns a unified diff for people; empty if nothing changes. */
export function unifiedDiff({ path, before, after, hunks }: ComparedTexts): string {
  if (before === after) return "";
  const isTooLong = hunks.length === 0 && (before ?? "") !== (after ?? "");
  if (isTooLong) return `${path} is too long to compare: the diff of its change is left out.\n`;
  const patch: StructuredPatch = {
    oldFileName: before === undefined ? "/dev/null" : `a/${path}`,
    newFileName: after === undefined ? "/dev/null" : `b/${path}`,
    oldHeader: undefined,
    newHeader: undefined,
    hunks,
  };
  return formatPatch(patch).replace(/^=+\n/, "");
}

/** Returns the change as a result for people. */
export function diffResult(diff: ComparedTexts): DiffResultValue {
  const { path, before, after, additions, deletions } = diff;
  const action = before === undefined ? "create" : after === undefined ? "delete" : "update";
  return {
    kind: "diff",
    path,
    ...(before !== undefined && before.length <= maxOriginalCharacters && { original: before }),
    modified: after ?? "",
    isNew: before === undefined,
    bytesWritten: Buffer.byteLength(after ?? ""),
    diff: unifiedDiff(diff),
    hunks: diff.hunks,
    stats: { additions, deletions, changes: additions + deletions },
    action,
    summary: `${verbs[action]} ${path} (+${additions} −${deletions})`,
  };
}

const verbs = { create: "Created", update: "Changed", delete: "Deleted" };

/** Returns the new state of the lines around a change, numbered as in read_file, unless there are too many. */
export function showChangedLines({ path, hunks }: ComparedTexts): string {
  const readAgain = `Read ${path} again before you change it further.`;
  const total = hunks.reduce((sum, hunk) => sum + hunk.newLines, 0);
  if (total === 0 || total > maxShownLines) return readAgain;

  const parts = hunks.map(({ newStart, lines }) => {
    const now = lines.filter((line) => /^[ +]/.test(line)).map((line) => line.slice(1).replace(/^\uFEFF|\r$/g, ""));
    return numberLines(now, Math.max(newStart, 1));
  });
  const shown = parts.join("\n     …\n");
  return shown.length > maxShownCharacters ? readAgain : `=== ${path} ===\n${shown}`;
}
