import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { compareTrees } from "#sandbox/git/compare-trees.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { buildTree } from "#sandbox/git/push-changes.ts";
import { readBase } from "#sandbox/git/read-base.ts";
import { findMergeBases, type MergeHistory } from "#sandbox/merge/merge-base.ts";
import { combineBases, mergeInto, mergeWrites } from "#sandbox/merge/merge-branch.ts";
import { createOverlay } from "#sandbox/overlay.ts";

// Repeats the merges in a repository's history with our merge and with `git merge-tree`, and lists the differences: in the
// tree, and for conflicts in their paths, in their lines and in everything else.
//
// usage: node scripts/replay-merges.ts --repository ~/src/project --merges 300

const { values } = parseArgs({
  options: {
    repository: { type: "string", default: "." },
    merges: { type: "string", default: "300" },
    skip: { type: "string", default: "0" },
    /** Only these merge commits, separated by commas. */
    only: { type: "string" },
  },
});
const folder = values.repository;

interface Merge {
  commit: string;
  ours: string;
  theirs: string;
}

interface Result {
  /** The merged tree, with markers in the files that conflict. */
  tree: string;
  conflicts: string[];
}

async function git(args: readonly string[], input = ""): Promise<{ output: Buffer; code: number }> {
  const child = spawn("git", args, { cwd: folder, stdio: ["pipe", "pipe", "ignore"] });
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  const [code] = await once(child, "close");
  return { output: Buffer.concat(chunks), code };
}

const lines = ({ output }: { output: Buffer }) => output.toString("utf8").split("\n").filter(Boolean);

async function listMerges(): Promise<Merge[]> {
  const options = ["--min-parents=2", "--max-parents=2", "--parents"];
  const chosen = values.only ? ["--no-walk", ...values.only.split(",")] : ["--all", `--skip=${values.skip}`];
  const found = lines(await git(["rev-list", ...options, `-${values.merges}`, ...chosen]));
  return found.map((line) => {
    const [commit = "", ours = "", theirs = ""] = line.split(" ");
    return { commit, ours, theirs };
  });
}

/** The repository does not have all objects of a merge, as in a partial clone. */
class IncompleteError extends Error {}

async function loadPack(store: ObjectStore, objects: readonly string[]): Promise<void> {
  const { output, code } = await git(["pack-objects", "--stdout", "-q"], [...objects, ""].join("\n"));
  if (code !== 0) throw new IncompleteError();
  await store.addPack([output]);
}

/** Loads the files of a tree or commit from a pack, as if a remote had sent them. */
async function loadFiles(store: ObjectStore, tree: string): Promise<void> {
  const listed = await git(["rev-list", "--objects", "--no-object-names", tree]);
  if (listed.code !== 0) throw new IncompleteError();
  await loadPack(
    store,
    lines(listed).filter((oid) => !store.has(oid)),
  );
}

const commits = new ObjectStore();
await loadPack(commits, lines(await git(["rev-list", "--all"])));

async function mergeHere({ ours, theirs }: Merge, store: ObjectStore): Promise<Result | undefined> {
  const history: MergeHistory = {
    store,
    basesOf: async (left, right) => (await findMergeBases(store, left, right)).bases,
    fetchFiles: (commit) => loadFiles(store, `${commit}^{tree}`),
  };
  const bases = await history.basesOf(ours, theirs);
  if (bases.length === 0) return undefined;
  for (const commit of [ours, theirs]) await history.fetchFiles(commit);
  const mergeBase = await combineBases(history, bases);
  const base = await readBase(store, ours);
  const { repository } = createOverlay(base, () => false).layers;
  const { edits, conflicts } = await mergeInto(base, repository, {
    labels: { ours, theirs },
    commit: theirs,
    mergeBase,
  });
  const all = mergeWrites({ edits, conflicts });
  for (const { path, content } of all) if (!content) repository.remove(path);
  for (const { path, content, mode } of all) if (content) repository.write(path, content, { mode });
  const paths = all.map(({ path }) => path);
  const built = await buildTree(base, repository, paths);
  for (const oid of built.added) store.add(built.store.read(oid) as never);
  return { tree: built.tree, conflicts: conflicts.map(({ path }) => path).sort() };
}

async function mergeWithGit({ ours, theirs }: Merge): Promise<Result | undefined> {
  const result = await git(["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs]);
  const [tree = "", ...conflicts] = result.output.toString("utf8").split("\0").filter(Boolean);
  // A merge with conflicts ends with 1; other codes are failures.
  if (result.code > 1) throw new IncompleteError();
  return { tree, conflicts: conflicts.sort() };
}

/** Compares both results; undefined if they are equal. */
async function difference(store: ObjectStore, own: Result, peer: Result): Promise<object | undefined> {
  if (own.tree === peer.tree && own.conflicts.join() === peer.conflicts.join()) return undefined;
  await loadFiles(store, peer.tree);
  const differences = await compareTrees(store, { before: own.tree, after: peer.tree, name: "The merge" });
  return { own: own.conflicts, peer: peer.conflicts, differing: differences.map(({ path }) => path) };
}

function ignoreIncomplete(error: unknown): undefined {
  if (!(error instanceof IncompleteError)) throw error;
}

const counts = { clean: 0, conflicting: 0, "other conflicts": 0, different: 0, incomplete: 0 };
for (const merge of await listMerges()) {
  const store = new ObjectStore({ below: commits });
  const own = await mergeHere(merge, store).catch(ignoreIncomplete);
  const peer = own && (await mergeWithGit(merge).catch(ignoreIncomplete));
  if (!own || !peer) {
    counts.incomplete++;
    continue;
  }
  const found = await difference(store, own, peer);
  const isClean = ({ conflicts }: Result) => conflicts.length === 0;
  if (!found) counts[isClean(own) ? "clean" : "conflicting"]++;
  else {
    counts[isClean(own) || isClean(peer) ? "different" : "other conflicts"]++;
    console.log(JSON.stringify({ ...merge, ...found }));
  }
}
console.log(JSON.stringify(counts));
