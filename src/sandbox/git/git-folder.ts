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
      const oids = new Set([commit, ...trees]);
      const yielder = new EventLoopYielder();
      for (const { mode, oid } of files) {
        if (yielder.isDue) await yielder.turn();
        if (!isSubmodule(mode)) oids.add(oid);
      }
      return yield* encodePack(store, oids);
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
    for (const { name, mode, oid } of parseTree(readObject(store, tree).data).reverse()) {
      open.push({ path: folder.length === 0 ? name : Buffer.concat([folder, slash, name]), mode, oid });
    }
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
  const length = files.reduce((sum, file) => sum + indexEntryLength(file), indexHeaderBytes);
  const content = Buffer.alloc(length + checksumBytes);
  content.write("DIRC", "latin1");
  content.writeUInt32BE(2, 4);
  content.writeUInt32BE(files.length, 8);
  const checksum = createHash("sha1");
  const yielder = new EventLoopYielder();
  let at = indexHeaderBytes;
  let hashed = 0;
  for (const file of files) {
    if (yielder.isDue) {
      checksum.update(content.subarray(hashed, at));
      hashed = at;
      await yielder.turn();
    }
    const { path, mode, oid } = file;
    const isPlain = mode.startsWith("100");
    const executable = isPlain && (Number.parseInt(mode, 8) & 0o100) !== 0;
    content.writeUInt32BE(isPlain ? (executable ? 0o100755 : 0o100644) : Number.parseInt(mode, 8), at + 24);
    content.write(oid, at + 40, "hex");
    content.writeUInt16BE((isPlain ? 0 : assumeUnchanged) | Math.min(path.length, maxPathLength), at + 60);
    path.copy(content, at + indexEntryBytes);
    at += indexEntryLength(file);
  }
  checksum.update(content.subarray(hashed, at)).digest().copy(content, at);
  return content;
}

const indexHeaderBytes = 12;
const indexEntryBytes = 62;
const checksumBytes = 20;

/** An entry ends with one to eight zeros, so that its length is a multiple of eight. */
function indexEntryLength({ path }: TreeFile): number {
  return (indexEntryBytes + path.length + 8) & ~7;
}

interface PackedObject {
  oid: string;
  checksum: number;
  offset: number;
}

/** Encodes objects as a pack without compression, and yields to the event loop meanwhile. Returns the pack's index. */
async function* encodePack(store: ObjectStore, oids: ReadonlySet<string>): AsyncGenerator<Uint8Array, Uint8Array> {
  const checksum = createHash("sha1");
  const packed: PackedObject[] = [];
  const yielder = new EventLoopYielder();
  const header = Buffer.alloc(12);
  header.write("PACK", "latin1");
  header.writeUInt32BE(2, 4);
  header.writeUInt32BE(oids.size, 8);
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
  const count = objects.length;
  const [oidsAt, checksumsAt] = [8 + 256 * 4, 8 + 256 * 4 + count * 20];
  const [offsetsAt, farAt] = [checksumsAt + count * 4, checksumsAt + count * 8];
  const far = objects.filter(({ offset }) => offset >= maxNearOffset).length * 8;
  const content = Buffer.alloc(farAt + far + 2 * checksumBytes);
  content.write("ff744f6300000002", "hex");
  const byFirstByte = Map.groupBy(objects, ({ oid }) => Number.parseInt(oid.slice(0, 2), 16));
  const yielder = new EventLoopYielder();
  let [at, farOffsets] = [0, 0];
  for (let byte = 0; byte < 256; byte++) {
    if (yielder.isDue) await yielder.turn();
    for (const { oid, checksum, offset } of (byFirstByte.get(byte) ?? []).sort((a, b) => (a.oid < b.oid ? -1 : 1))) {
      content.write(oid, oidsAt + at * 20, "hex");
      content.writeUInt32BE(checksum, checksumsAt + at * 4);
      content.writeUInt32BE(offset < maxNearOffset ? offset : maxNearOffset + farOffsets, offsetsAt + at * 4);
      if (offset >= maxNearOffset) content.writeBigUInt64BE(BigInt(offset), farAt + farOffsets++ * 8);
      at++;
    }
    content.writeUInt32BE(at, 8 + byte * 4);
  }
  packDigest.copy(content, farAt + far);
  const end = content.length - checksumBytes;
  createHash("sha1").update(content.subarray(0, end)).digest().copy(content, end);
  return content;
}

/** Offsets from here on are stored with eight bytes, in a list at the end. */
const maxNearOffset = 0x80000000;
