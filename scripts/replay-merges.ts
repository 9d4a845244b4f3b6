import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { readBase } from "#sandbox/base.ts";
import { mergeInto } from "#sandbox/merge-branch.ts";
import { ObjectStore } from "#sandbox/object-store.ts";
import { createOverlay } from "#sandbox/overlay.ts";
import { buildTree } from "#sandbox/push-changes.ts";

// Repeats the merges in a repository's history with our merge and with `git merge-tree`, and lists the differences.
//
// usage: node scripts/replay-merges.ts --repository ~/src/project --merges 300

const { values } = parseArgs({
  options: {
    repository: { type: "string", default: "." },
    merges: { type: "string", default: "300" },
    skip: { type: "string", default: "0" },
  },
});
const folder = values.repository;

interface Merge {
  commit: string;
  ours: string;
  theirs: string;
  base: string;
}

type Result = { tree: string } | { conflicts: string[] };

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
  const options = ["--all", "--min-parents=2", "--max-parents=2", "--parents"];
  const found = lines(await git(["rev-list", ...options, `--skip=${values.skip}`, `-${values.merges}`]));
  const merges: Merge[] = [];
  for (const line of found) {
    const [commit = "", ours = "", theirs = ""] = line.split(" ");
    const [base] = lines(await git(["merge-base", "--all", ours, theirs]));
    if (base !== undefined) merges.push({ commit, ours, theirs, base });
  }
  return merges;
}

/** The repository does not have all objects of a merge, as in a partial clone. */
class IncompleteError extends Error {}

/** Loads the files of a merge from a pack, as if a remote had sent them. */
async function load({ ours, theirs, base }: Merge): Promise<ObjectStore> {
  const store = new ObjectStore();
  const wanted = [ours, theirs, base];
  const trees = wanted.map((commit) => `${commit}^{tree}`);
  const listed = await git(["rev-list", "--objects", "--no-object-names", ...trees]);
  const objects = [...wanted, ...lines(listed), ""].join("\n");
  const { output, code } = await git(["pack-objects", "--stdout", "-q"], objects);
  if (listed.code !== 0 || code !== 0) throw new IncompleteError();
  await store.addPack([output]);
  return store;
}

async function mergeHere(merge: Merge): Promise<Result> {
  const store = await load(merge);
  const base = await readBase(store, merge.ours);
  const overlay = createOverlay(base, () => false);
  const { repository } = overlay.layers;
  const plan = await mergeInto(base, repository, { name: "theirs", commit: merge.theirs, mergeBase: merge.base });
  if (plan.conflicts.length > 0) return { conflicts: plan.conflicts.map(({ path }) => path) };
  for (const { path, content } of plan.edits) if (!content) overlay.remove("repository", path);
  for (const { path, content, mode } of plan.edits) if (content) overlay.write("repository", path, content, mode);
  const paths = plan.edits.map(({ path }) => path);
  return { tree: (await buildTree(base, repository, paths)).tree };
}

async function mergeWithGit({ ours, theirs }: Merge): Promise<Result> {
  const result = await git(["merge-tree", "--write-tree", "--name-only", "--no-messages", ours, theirs]);
  const [tree = "", ...conflicts] = lines(result);
  // A merge with conflicts ends with 1; other codes are failures.
  if (result.code > 1) throw new IncompleteError();
  return result.code === 0 ? { tree } : { conflicts };
}

function asResult(error: Error): Result | undefined {
  return error instanceof IncompleteError ? undefined : { conflicts: [error.message] };
}

const counts = { clean: 0, conflicting: 0, different: 0, incomplete: 0 };
for (const merge of await listMerges()) {
  const [own, peer] = await Promise.all([mergeHere(merge).catch(asResult), mergeWithGit(merge).catch(asResult)]);
  if (!own || !peer) counts.incomplete++;
  else if ("tree" in own && "tree" in peer && own.tree === peer.tree) counts.clean++;
  else if ("conflicts" in own && "conflicts" in peer) counts.conflicting++;
  else {
    counts.different++;
    console.log(JSON.stringify({ ...merge, own, peer }));
  }
}
console.log(JSON.stringify(counts));
