import { createHash } from "node:crypto";
import { crc32, deflateSync } from "node:zlib";
import { EventLoopYielder } from "#domain/async-work.ts";
import type { GitFolder } from "#domain/workspace.ts";
import type { Base } from "./base.ts";
import { type GitObject, isFolder, packHeader, parseTree } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";

interface TreeFile {
  path: Buffer;
  mode: string;
  oid: string;
}

/** The indexes of bases, since every run on a base needs the same one. */
const indexes = new WeakMap<GitFolderBase, Promise<Buffer>>();

type GitFolderBase = Pick<Base, "commit" | "tree" | "store">;

function indexOf(base: GitFolderBase): Promise<Buffer> {
  const index = indexes.get(base) ?? readTrees(base.store, base.tree).then(({ files }) => encodeIndex(files));
  indexes.set(base, index);
  index.catch(() => indexes.delete(base));
  return index;
}

/**
 * Creates the `.git` of a base for a copy of its files: one commit, whose index has these files. It has no remote, no
 * credentials and no hooks. The contents of the base must be loaded.
 */
export function createGitFolder(base: GitFolderBase, branch: string): GitFolder {
  const { commit, tree, store } = base;
  return {
    commit,
    async files() {
      const isBranchName = /^[\w][\w./+@-]*$/.test(branch) && !/\.\.|\/\/|@\{|\.lock(\/|$)|[/.]$|\/\./.test(branch);
      const refs = isBranchName ? [`refs/heads/${branch}`, `refs/remotes/origin/${branch}`] : [];
      const text = (path: string, content: string) => ({ path, content: Buffer.from(content) });
      return [
        text("HEAD", isBranchName ? `ref: refs/heads/${branch}\n` : `${commit}\n`),
        text("config", config),
        text("shallow", `${commit}\n`),
        ...refs.map((ref) => text(ref, `${commit}\n`)),
        { path: "index", content: await indexOf(base) },
      ];
    },
    async *pack() {
      const { files, trees } = await readTrees(store, tree);
      const blobs = files.filter(({ mode }) => !isSubmodule(mode)).map(({ oid }) => oid);
      return yield* encodePack(store, [...new Set([commit, ...trees, ...blobs])]);
    },
  };
}

const config = [
  "[core]",
  "\trepositoryformatversion = 0",
  "\tbare = false",
  "[user]",
  "\tname = Golem Forge",
  "\temail = golem-forge@localhost",
  "[gc]",
  "\tauto = 0",
  "",
].join("\n");

function isSubmodule(mode: string): boolean {
  return mode.startsWith("16");
}

/** Lists the files of a tree in the order of an index: a depth-first walk, since git sorts a folder as if its name ended in `/`. */
async function readTrees(store: ObjectStore, root: string): Promise<{ files: TreeFile[]; trees: Set<string> }> {
  const files: TreeFile[] = [];
  const trees = new Set<string>();
  const yielder = new EventLoopYielder();
  const open: TreeFile[] = [{ path: Buffer.alloc(0), mode: "40000", oid: root }];
  for (let next = open.pop(); next; next = open.pop()) {
    if (yielder.isDue) await yielder.turn();
    if (!isFolder(next)) {
      files.push(next);
      continue;
    }
    const { path: folder, oid: tree } = next;
    trees.add(tree);
    const items = parseTree(readObject(store, tree).data).map(({ name, mode, oid }) => {
      return { path: folder.length === 0 ? name : Buffer.concat([folder, slash, name]), mode, oid };
    });
    open.push(...items.reverse());
  }
  return { files, trees };
}

const slash = Buffer.from("/");

function readObject(store: ObjectStore, oid: string): GitObject {
  const object = store.read(oid);
  if (!object) throw new Error(`The object ${oid} of the base is missing.`);
  return object;
}

const maxPathLength = 0xfff;
const assumeUnchanged = 0x8000;

/**
 * Encodes an index of version 2. It has no file times, so git compares the contents of the files once. Links and
 * submodules are marked as unchanged, because a copy of the files contains neither.
 */
async function encodeIndex(files: readonly TreeFile[]): Promise<Buffer> {
  const header = Buffer.alloc(12);
  header.write("DIRC", "latin1");
  header.writeUInt32BE(2, 4);
  header.writeUInt32BE(files.length, 8);
  const parts = [header];
  const yielder = new EventLoopYielder();
  for (const { path, mode, oid } of files) {
    if (yielder.isDue) await yielder.turn();
    const fixed = 62;
    const entry = Buffer.alloc((fixed + path.length + 8) & ~7);
    const isPlain = mode.startsWith("100");
    const executable = isPlain && (Number.parseInt(mode, 8) & 0o100) !== 0;
    entry.writeUInt32BE(isPlain ? (executable ? 0o100755 : 0o100644) : Number.parseInt(mode, 8), 24);
    entry.write(oid, 40, "hex");
    entry.writeUInt16BE((isPlain ? 0 : assumeUnchanged) | Math.min(path.length, maxPathLength), 60);
    path.copy(entry, fixed);
    parts.push(entry);
  }
  const content = Buffer.concat(parts);
  return Buffer.concat([content, createHash("sha1").update(content).digest()]);
}

interface PackedObject {
  oid: string;
  checksum: number;
  offset: number;
}

/** Encodes objects as a pack without compression, and yields to the event loop meanwhile. Returns the pack's index. */
async function* encodePack(store: ObjectStore, oids: readonly string[]): AsyncGenerator<Uint8Array, Uint8Array> {
  const checksum = createHash("sha1");
  const packed: PackedObject[] = [];
  const yielder = new EventLoopYielder();
  const header = Buffer.alloc(12);
  header.write("PACK", "latin1");
  header.writeUInt32BE(2, 4);
  header.writeUInt32BE(oids.length, 8);
  let parts: Buffer[] = [header];
  let offset = 0;
  let length = header.length;
  for (const oid of oids) {
    const read = readObject(store, oid);
    const object = Buffer.concat([packHeader(read), deflateSync(read.data, { level: 0 })]);
    packed.push({ oid, checksum: crc32(object), offset: offset + length });
    parts.push(object);
    length += object.length;
    if (!yielder.isDue) continue;
    const chunk = Buffer.concat(parts);
    checksum.update(chunk);
    yield chunk;
    offset += length;
    [parts, length] = [[], 0];
    await yielder.turn();
  }
  const rest = Buffer.concat(parts);
  const digest = checksum.update(rest).digest();
  yield Buffer.concat([rest, digest]);
  return encodePackIndex(packed, digest);
}

/** Encodes a pack index of version 2. */
async function encodePackIndex(objects: readonly PackedObject[], packDigest: Buffer): Promise<Buffer> {
  const header = Buffer.from("ff744f6300000002", "hex");
  const counts = Buffer.alloc(256 * 4);
  const oids: Buffer[] = [];
  const [checksums, offsets] = [Buffer.alloc(objects.length * 4), Buffer.alloc(objects.length * 4)];
  const large: bigint[] = [];
  const byFirstByte = Map.groupBy(objects, ({ oid }) => Number.parseInt(oid.slice(0, 2), 16));
  const yielder = new EventLoopYielder();
  for (let byte = 0; byte < 256; byte++) {
    if (yielder.isDue) await yielder.turn();
    for (const { oid, checksum, offset } of (byFirstByte.get(byte) ?? []).sort((a, b) => (a.oid < b.oid ? -1 : 1))) {
      const at = 4 * oids.push(Buffer.from(oid, "hex")) - 4;
      checksums.writeUInt32BE(checksum, at);
      offsets.writeUInt32BE(offset < 0x80000000 ? offset : 0x80000000 + large.push(BigInt(offset)) - 1, at);
    }
    counts.writeUInt32BE(oids.length, byte * 4);
  }
  const far = Buffer.alloc(large.length * 8);
  for (const [at, offset] of large.entries()) far.writeBigUInt64BE(offset, at * 8);
  const content = Buffer.concat([header, counts, ...oids, checksums, offsets, far, packDigest]);
  return Buffer.concat([content, createHash("sha1").update(content).digest()]);
}
