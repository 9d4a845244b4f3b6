import { EventLoopYielder } from "#domain/async-work.ts";
import { folderOf } from "#sandbox/paths.ts";

/** A file, link or submodule that one side of a comparison lacks. */
export interface RenameCandidate {
  path: string;
  mode: string;
  oid: string;
}

/** The number of pairs of files whose contents are compared; git gives up at 7,000 × 7,000. */
const maxPairs = 200_000;
const maxFileBytes = 8 * 1024 ** 2;
const minSimilarity = 0.5;
/** For files that kept their name and moved to another folder, which git compares first. */
const minSimilarityOfSameName = 0.75;
const emptyBlob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

interface RenameRequest {
  deleted: readonly RenameCandidate[];
  added: readonly RenameCandidate[];
  /** The deleted files for which the answer matters. Files with equal contents are found for all. */
  relevant: { has(path: string): boolean };
  read(oid: string): Buffer | undefined;
}

/**
 * Finds renamed files as git does for a merge: files with equal contents first, then those that kept their name, then
 * the most similar ones, if at least half of the content is the same. Links and submodules are renamed only if they are
 * equal. Returns the new path by the old one.
 */
export async function findRenames({ deleted, added, relevant, read }: RenameRequest): Promise<Map<string, string>> {
  const renames = findExactRenames(deleted, added);
  const taken = new Set(renames.values());
  const sources = deleted.filter((file) => isFile(file) && !renames.has(file.path) && relevant.has(file.path));
  const targets = added.filter((file) => isFile(file) && !taken.has(file.path));
  const similarity = new Similarity(read);
  for (const [from, to] of sameNames(sources, targets)) {
    if (similarity.of(from.oid, to.oid) < minSimilarityOfSameName) continue;
    renames.set(from.path, to.path);
    taken.add(to.path);
  }
  const rest = {
    sources: sources.filter(({ path }) => !renames.has(path)),
    targets: targets.filter(({ path }) => !taken.has(path)),
  };
  if (rest.sources.length * rest.targets.length > maxPairs) return renames;

  for (const { from, to } of await findSimilar(rest, similarity)) {
    if (renames.has(from) || taken.has(to)) continue;
    renames.set(from, to);
    taken.add(to);
  }
  return renames;
}

/** Finds renamed folders as git does: those gone, by where most of their files moved (`renames`: old to new). */
export function findRenamedFolders(
  renames: ReadonlyMap<string, string>,
  isGone: (folder: string) => boolean,
): Map<string, string> {
  const counts = new Map<string, Map<string, number>>();
  for (const [from, to] of renames) {
    for (let [old, now] = [folderOf(from), folderOf(to)]; old !== now && isGone(old); ) {
      const targets = counts.getOrInsertComputed(old, () => new Map<string, number>());
      targets.set(now, (targets.get(now) ?? 0) + 1);
      if (now === "" || nameOf(old) !== nameOf(now)) break;
      [old, now] = [folderOf(old), folderOf(now)];
    }
  }
  const folders = [...counts].flatMap(([old, targets]): [string, string][] => {
    const [most, next] = [...targets].sort(([, a], [, b]) => b - a);
    return most && most[1] !== next?.[1] ? [[old, most[0]]] : [];
  });
  return new Map(folders);
}

function findExactRenames(deleted: readonly RenameCandidate[], added: readonly RenameCandidate[]): Map<string, string> {
  const sources = Map.groupBy(deleted, identityOf);
  const renames = new Map<string, string>();
  for (const file of added) {
    const { path, oid } = file;
    const equal = oid === emptyBlob ? [] : (sources.get(identityOf(file)) ?? []);
    const free = equal.filter((source) => !renames.has(source.path));
    const source = free.find((candidate) => nameOf(candidate.path) === nameOf(path)) ?? free[0];
    if (source) renames.set(source.path, path);
  }
  return renames;
}

/** The executable bit of a file does not count; the modes of links and submodules do. */
function identityOf(file: RenameCandidate): string {
  return isFile(file) ? file.oid : `${file.mode} ${file.oid}`;
}

function isFile({ mode }: RenameCandidate): boolean {
  return mode.startsWith("100");
}

/** Pairs the files whose name occurs once on each side. */
function sameNames(sources: readonly RenameCandidate[], targets: readonly RenameCandidate[]) {
  const byName = (files: readonly RenameCandidate[]) => Map.groupBy(files, ({ path }) => nameOf(path));
  const targetsByName = byName(targets);
  return [...byName(sources)].flatMap(([name, [from, ...others]]): [RenameCandidate, RenameCandidate][] => {
    const [to, ...more] = targetsByName.get(name) ?? [];
    return from && to && others.length === 0 && more.length === 0 ? [[from, to]] : [];
  });
}

/** Lists the similar pairs, the most similar one first, and then those with the same name. */
async function findSimilar(
  { sources, targets }: Record<"sources" | "targets", readonly RenameCandidate[]>,
  similarity: Similarity,
): Promise<{ from: string; to: string }[]> {
  const yielder = new EventLoopYielder();
  const pairs: { from: string; to: string; score: number; hasSameName: boolean }[] = [];
  for (const to of targets) {
    for (const from of sources) {
      if (yielder.isDue) await yielder.turn();
      const score = similarity.of(from.oid, to.oid);
      if (score < minSimilarity) continue;
      pairs.push({ from: from.path, to: to.path, score, hasSameName: nameOf(from.path) === nameOf(to.path) });
    }
  }
  return pairs.sort((a, b) => b.score - a.score || Number(b.hasSameName) - Number(a.hasSameName));
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The bytes of a content in pieces of a line or 64 bytes, by the piece's hash. */
interface Pieces {
  size: number;
  bytesByHash: Map<number, number>;
}

/** Estimates similarities as git does: the share of the larger content whose pieces also occur in the other one. */
class Similarity {
  readonly #read: RenameRequest["read"];
  readonly #pieces = new Map<string, Pieces | undefined>();

  constructor(read: RenameRequest["read"]) {
    this.#read = read;
  }

  /** Returns a number from 0 to 1. */
  of(from: string, to: string): number {
    const [source, target] = [this.#piecesOf(from), this.#piecesOf(to)];
    if (!source || !target) return 0;

    const max = Math.max(source.size, target.size);
    if (Math.min(source.size, target.size) < max * minSimilarity) return 0;
    let copied = 0;
    for (const [hash, bytes] of source.bytesByHash) copied += Math.min(bytes, target.bytesByHash.get(hash) ?? 0);
    return copied / max;
  }

  #piecesOf(oid: string): Pieces | undefined {
    if (!this.#pieces.has(oid)) {
      const content = this.#read(oid);
      const isComparable = content && content.length > 0 && content.length <= maxFileBytes;
      this.#pieces.set(oid, isComparable ? splitIntoPieces(content) : undefined);
    }
    return this.#pieces.get(oid);
  }
}

const maxPieceBytes = 64;
const hashBase = 107_927;
const binaryCheckBytes = 8_000;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** Splits and hashes as `hash_chars` of git's diffcore-delta.c, so that the similarities are equal. */
function splitIntoPieces(content: Buffer): Pieces {
  const isText = !content.subarray(0, binaryCheckBytes).includes(0);
  const bytesByHash = new Map<number, number>();
  let [first, second, length] = [0, 0, 0];
  const endPiece = () => {
    const hash = ((first + Math.imul(second, 0x61)) >>> 0) % hashBase;
    bytesByHash.set(hash, (bytesByHash.get(hash) ?? 0) + length);
    [first, second, length] = [0, 0, 0];
  };
  for (let at = 0; at < content.length; at++) {
    const byte = content[at] ?? 0;
    if (isText && byte === carriageReturn && content[at + 1] === lineFeed) continue;

    const before = first;
    first = (((first << 7) ^ (second >>> 25)) + byte) >>> 0;
    second = ((second << 7) ^ (before >>> 25)) >>> 0;
    length++;
    if (length === maxPieceBytes || byte === lineFeed) endPiece();
  }
  if (length > 0) endPiece();
  return { size: content.length, bytesByHash };
}
