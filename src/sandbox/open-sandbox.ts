import { canonicalJson } from "#domain/approval.ts";
import { EventLoopYielder } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import type { FileChange } from "#domain/preview.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { Base } from "./git/base.ts";
import { readBlame } from "./git/blame.ts";
import { compareFiles, compareWithAll, findDropped, toFileVersion, treeOf } from "./git/compare-trees.ts";
import { createGitFolder } from "./git/git-folder.ts";
import { readHistory } from "./git/history.ts";
import { ObjectStore } from "./git/object-store.ts";
import { createContentLoader, openBase } from "./git/open-base.ts";
import {
  assertPushableBranch,
  type BuiltTree,
  buildTree,
  type CommitRequest,
  createCommit,
  isSameCommit,
  type ProtectedBranches,
  pushCommit,
} from "./git/push-changes.ts";
import { connect, type Remote } from "./git/remote.ts";
import { notAFile, readFileAt, resolveRevision, showCommit } from "./git/show-commit.ts";
import { fetchCommit } from "./merge/merge-base.ts";
import { type MergePlan, mergeWrites, planMerge } from "./merge/merge-branch.ts";
import { createOverlay, type Overlay } from "./overlay.ts";
import { fileChange } from "./preview-files.ts";
import type { GitSandbox, MergedCommit, OpenSandbox, PushPlan, PushRequest, SandboxSource } from "./sandbox.ts";
import {
  assertWritable,
  createStaging,
  isStagingFile,
  versionBefore,
  versionNow,
  workingChanges,
} from "./working-changes.ts";
import { createWorkspaceView } from "./workspace-view.ts";
import { createZones, isolatedSandbox, type Zones } from "./zones.ts";

/** The state that the operations of one sandbox share. */
interface SandboxState {
  protectedBranches: ProtectedBranches;
  base: Base;
  overlay: Overlay;
  view: ReturnType<typeof createWorkspaceView>;
  zones: Zones;
  source: SandboxSource;
  connect: (signal?: AbortSignal) => Remote;
  /** Resolves when the base's contents have been fetched, which happens after its tree. */
  loadContents: () => Promise<void>;
}

/**
 * Opens a repository at the tip of a branch or at the base of an existing run, with the run's changes over it. Throws a
 * UserError when the repository is empty, missing, too large or not accessible with the run's credentials.
 */
export async function openSandbox({
  source,
  at,
  policy,
  changes,
  signal,
  pushesToBase = false,
  followsDefaultBranch = false,
}: OpenSandbox): Promise<GitSandbox> {
  const zones = createZones(policy, isolatedSandbox);
  const connectRemote = (stop?: AbortSignal) => connect(source, stop);
  const opened = await openBase(connectRemote(signal), source, { ...at, followsDefaultBranch }, signal);
  const { base } = opened;
  const overlay = createOverlay(base, isStagingFile);
  await overlay.restore(changes);
  const loader = createContentLoader(base, connectRemote);
  const { loadContents } = loader;
  // The first operation that needs the contents reports the failure.
  loadContents().catch(() => {});
  const view = createWorkspaceView(base, overlay, { zones, loader });
  const staging = createStaging(overlay);
  const protectedBranches = { base: pushesToBase ? undefined : opened.at.branch, default: opened.defaultBranch };
  const state: SandboxState = {
    ...{ protectedBranches, base, overlay, view, zones, source },
    connect: connectRemote,
    loadContents,
  };

  const working = workingChanges({ base, overlay, view, staging, loadContents });
  return {
    ...view,
    base: opened.at,
    isOnDefaultBranch: opened.at.branch === opened.defaultBranch,
    gitFolder: async () => {
      if (!zones.canSee("")) return undefined;
      await loadContents();
      return createGitFolder(base, opened.at.branch);
    },
    restricted: (narrower) => createWorkspaceView(base, overlay, { zones: zones.narrow(narrower), loader }),
    pendingChanges: overlay.pendingChanges,
    markStored: overlay.markStored,
    rollback: overlay.rollback,
    history: async () => {
      await loadContents();
      return overlay.history();
    },
    log: (options) => log(state, options),
    blame: async ({ path, ...lines }) => {
      const content = await view.readBytes(path);
      return readBlame(base.store, connectRemote, {
        ...lines,
        content,
        path: view.resolve(path),
        from: base.commit,
      });
    },
    show: (revision, options) => show(state, revision, options),
    readAt: async (revision, path, stop) => {
      const resolved = view.resolve(path);
      const remote = connectRemote(stop);
      const commit = await commitOf(base, remote, revision);
      if (!zones.canSee(resolved)) throw notAFile(resolved, commit, "");
      return readFileAt(base, remote, commit, resolved);
    },
    push: (request) => push(state, request),
    previewRestore: async ({ tip, to }, stop) => {
      await loadContents();
      for (const commit of [tip, to]) await fetchCommit(base, connectRemote(stop), commit);
      return compareFiles(base.store, treeOf(base.store, tip), treeOf(base.store, to));
    },
    restore: (request) => restore(state, request),
    branches: (stop) => listBranches(connectRemote(stop)),
    previewMerge: (name, options) => previewMerge(state, name, options),
    mergeBranch: (name, options) => mergeBranch(state, name, options),
    ...working,
    planPush: async (parents, stop) => {
      const paths = (await working.outgoing()).map(({ path }) => path);
      return planPush(state, { paths, ...parents }, stop);
    },
  };
}

async function log(
  { base, view, connect: connectRemote }: SandboxState,
  { path, from, exclude, ...options }: Parameters<GitSandbox["log"]>[0],
): ReturnType<GitSandbox["log"]> {
  const remote = connectRemote();
  return readHistory(base.store, connectRemote, {
    ...options,
    from: from === undefined ? base.commit : await commitOf(base, remote, from),
    exclude: exclude === undefined ? undefined : await commitOf(base, remote, exclude),
    path: path === undefined ? undefined : view.resolve(path),
  });
}

async function show(
  { base, view, zones, connect: connectRemote }: SandboxState,
  revision: string,
  { path = "", signal }: Parameters<GitSandbox["show"]>[1] = {},
): ReturnType<GitSandbox["show"]> {
  const remote = connectRemote(signal);
  const commit = await commitOf(base, remote, revision);
  return showCommit(base, remote, { commit, path: view.resolve(path), canSee: zones.canSee });
}

async function push(state: SandboxState, request: PushRequest): Promise<string> {
  const { protectedBranches, base, overlay, connect: connectRemote, loadContents } = state;
  assertPushableBranch(request.branch, protectedBranches);
  const paths = request.changes.map(({ path }) => path);
  await loadContents();
  if (paths.length === 0 && !request.expectedTip)
    throw new UserError("There is nothing to push: this run has not changed any files.");

  const { message, author, at: time, expectedTip, merged = [], signal } = request;
  const built = await buildTree(base, overlay.layers.repository, paths);
  await assertUnchanged(request.changes, base, built);
  if (request.tree !== undefined && request.tree !== built.tree)
    throw new UserError("The files have changed since this push was prepared. Nothing was pushed.");
  for (const one of merged) await assertContained(one, { base, built, remote: connectRemote(signal) });
  const parents = [...new Set([expectedTip ?? base.commit, ...merged.map(({ commit }) => commit)])];
  return commitAndPush(state, built, { ...request, parents, message, author, at: time });
}

async function commitAndPush(
  { base, connect: connectRemote, source }: SandboxState,
  built: BuiltTree,
  request: CommitRequest & Pick<PushRequest, "branch" | "expectedTip" | "signal">,
): Promise<string> {
  const remote = connectRemote(request.signal);
  const isEqual = async (commit: string) => {
    await fetchCommit(base, remote, commit);
    const found = base.store.read(commit);
    return found !== undefined && isSameCommit(found.data, { ...request, tree: built.tree });
  };
  return pushCommit(remote, { ...request, isEqual }, await createCommit(source, built, request));
}

/** The new commit's parents are the tip and the merged commits, so its own changes are the differences from all of them. */
async function planPush(
  { base, overlay, connect: connectRemote, loadContents }: SandboxState,
  {
    paths,
    tip = base.commit,
    merged,
  }: { paths: readonly string[]; tip: string | undefined; merged: readonly MergedCommit[] },
  signal: AbortSignal | undefined,
): Promise<PushPlan> {
  await loadContents();
  const remote = connectRemote(signal);
  const built = await buildTree(base, overlay.layers.repository, paths);
  for (const one of merged) await assertContained(one, { base, built, remote });
  await fetchCommit(base, remote, tip);
  const others = merged.filter(({ isBase }) => isBase).map(({ commit }) => treeOf(base.store, commit));
  const { store, tree } = built;
  return { tree, files: await compareWithAll(store, { tip: treeOf(store, tip), others, tree }) };
}

async function restore(
  state: SandboxState,
  { branch, tip, to, message, author, at: time, signal }: Parameters<GitSandbox["restore"]>[0],
): ReturnType<GitSandbox["restore"]> {
  const { protectedBranches, base, connect: connectRemote, loadContents } = state;
  assertPushableBranch(branch, protectedBranches);
  await loadContents();
  await fetchCommit(base, connectRemote(signal), to);
  const store = new ObjectStore({ below: base.store });
  const tree = treeOf(base.store, to);
  const built = { tree, baseTree: tree, files: [], store, added: [] };
  return commitAndPush(state, built, { branch, expectedTip: tip, parents: [tip], message, author, at: time, signal });
}

async function previewMerge(
  { base, overlay, connect: connectRemote, loadContents }: SandboxState,
  name: string,
  { withConflicts = false, heads, since, signal }: Parameters<GitSandbox["previewMerge"]>[1] = {},
): ReturnType<GitSandbox["previewMerge"]> {
  const remote = connectRemote(signal);
  const commit = await tipOf(remote, name);
  await loadContents();
  const plan = await planMerge(base, overlay.layers.repository, remote, { name, commit, heads, since });
  const writes = plan.conflicts.length === 0 || withConflicts ? mergeWrites(plan) : [];
  const files = writes.map(({ path, content, mode }) => ({
    path,
    before: versionNow(overlay, path),
    after: content && toFileVersion(content, mode),
  }));
  return { commit, files };
}

async function mergeBranch(
  { base, overlay, view, connect: connectRemote, loadContents }: SandboxState,
  name: string,
  { withConflicts = false, commit: expected, heads, since, signal }: Parameters<GitSandbox["mergeBranch"]>[1] = {},
): ReturnType<GitSandbox["mergeBranch"]> {
  const remote = connectRemote(signal);
  const commit = await tipOf(remote, name);
  if (expected !== undefined && commit !== expected) {
    throw new UserError(`The branch ${name} has moved to ${commit.slice(0, 10)}. Nothing was merged.`);
  }
  await loadContents();
  const plan = await planMerge(base, overlay.layers.repository, remote, { name, commit, heads, since });
  const applied = plan.conflicts.length === 0 || withConflicts;
  if (applied) applyMerge(view, overlay, plan);
  const conflicts = plan.conflicts.map(({ path, kind, content }) => ({
    path,
    kind,
    ...(content !== undefined && { content }),
  }));
  return { commit, mergeBases: plan.mergeBases, merged: plan.edits.map(({ path }) => path), conflicts, applied };
}

/** Throws if the committed changes differ from those in the request. Compares the files byte by byte. */
async function assertUnchanged(changes: readonly FileChange[], base: Base, built: BuiltTree): Promise<void> {
  const loop = new EventLoopYielder();
  const committed = new Map(built.files.map((file) => [file.path, file]));
  for (const expected of changes) {
    if (loop.isDue) await loop.turn();
    const { path } = expected;
    const { content, mode = "100644" } = committed.get(path) ?? {};
    const after = content && toFileVersion(content, mode);
    if (canonicalJson(fileChange({ path, before: versionBefore(base, path), after })) === canonicalJson(expected))
      continue;
    throw new UserError(`${path} has changed since this push was prepared. Nothing was pushed.`);
  }
}

/** Throws if the commit lacks a change of a merged commit, which would revert that change unnoticed. */
async function assertContained(
  { commit, since }: MergedCommit,
  { base, built, remote }: { base: Base; built: BuiltTree; remote: Remote },
): Promise<void> {
  const from = since ?? [base.commit];
  for (const needed of [...from, commit]) await fetchCommit(base, remote, needed);
  const dropped = await findDropped(built.store, { from, commit, tree: built.tree });
  if (dropped === undefined) return;
  throw new UserError(
    `${dropped} lacks a change of the merged commit ${commit.slice(0, 10)}. Merge again, or restore the file. Nothing was pushed.`,
  );
}

async function listBranches(remote: Remote) {
  const refs = await remote.refs(["refs/heads/"]);
  return refs
    .map(({ name, oid }) => ({ name: name.slice("refs/heads/".length), commit: oid }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function commitOf(base: Base, remote: Remote, revision: string): Promise<string> {
  return resolveRevision(base, remote, revision, (name) => tipOf(remote, name));
}

const maxNamedBranches = 10;

async function tipOf(remote: Remote, name: string): Promise<string> {
  const ref = `refs/heads/${name}`;
  const tip = (await remote.refs([ref])).find((found) => found.name === ref)?.oid;
  if (tip) return tip;
  const names = (await listBranches(remote)).map((branch) => branch.name);
  const near = closestMatch(name, names);
  const more = names.length > maxNamedBranches ? ` and ${names.length - maxNamedBranches} more` : "";
  const hint = near ? `Did you mean ${near}?` : `Its branches: ${names.slice(0, maxNamedBranches).join(", ")}${more}.`;
  throw new UserError(`${remote.name} has no branch ${JSON.stringify(name)}. ${hint}`);
}

/** Applies a merge. Checks all paths before writing any. */
function applyMerge(view: Pick<GitSandbox, "resolve" | "ruleFor">, overlay: Overlay, plan: MergePlan): void {
  const all = mergeWrites(plan);
  for (const { path } of all) assertWritable(view, path);
  for (const { path, content } of all) if (!content) overlay.remove("repository", path);
  for (const { path, content, mode } of all) if (content) overlay.write("repository", path, content, mode);
}
