import { createHash, hash } from "node:crypto";
import { deflateSync } from "node:zlib";
import { EventLoopYielder } from "#domain/async-work.ts";

export interface GitObject {
  type: "commit" | "tree" | "blob" | "tag";
  data: Buffer;
}

/** One item of a tree. Name and mode are kept as stored, so that unchanged items are written back byte for byte. */
export interface TreeItem {
  mode: string;
  name: Buffer;
  oid: string;
}

export interface Commit {
  tree: string;
  parents: string[];
  author: string;
  email: string;
  authored: Date;
  committed: Date;
  message: string;
}

/** The buffer for the header and the content of an object of up to this size, for hashing. */
const hashed = Buffer.allocUnsafeSlow(64 * 1024);
const maxHeaderBytes = 32;

/** Computes the object id that git gives this content. */
export function hashObject({ type, data }: { type: GitObject["type"]; data: Uint8Array }): string {
  const header = `${type} ${data.length}\0`;
  if (data.length > hashed.length - maxHeaderBytes) {
    return createHash("sha1").update(header).update(data).digest("hex");
  }
  // Creating a Hash takes longer than hashing a small object.
  const start = hashed.write(header, "latin1");
  hashed.set(data, start);
  return hash("sha1", hashed.subarray(0, start + data.length));
}

/** Computes the object id of a large object without blocking the event loop. */
export async function hashLargeObject({ type, data }: GitObject): Promise<string> {
  const loop = new EventLoopYielder();
  const sha1 = createHash("sha1").update(`${type} ${data.length}\0`);
  for (let at = 0; at < data.length; at += hashedAtOnce) {
    sha1.update(data.subarray(at, at + hashedAtOnce));
    if (loop.isDue) await loop.turn();
  }
  return sha1.digest("hex");
}

const hashedAtOnce = 1024 ** 2;

export function parseTree(data: Buffer): TreeItem[] {
  const lines: TreeItem[] = [];
  for (let at = 0; at < data.length; ) {
    const space = data.indexOf(0x20, at);
    const end = data.indexOf(0, space);
    if (space === -1 || end === -1 || end + 21 > data.length) throw new Error("A tree of the repository is damaged.");

    lines.push({
      mode: data.toString("latin1", at, space),
      name: data.subarray(space + 1, end),
      oid: data.toString("hex", end + 1, end + 21),
    });
    at = end + 21;
  }
  return lines;
}

/** Returns the item with a name. Unlike `parseTree`, creates nothing for the others. */
export function findInTree(data: Buffer, name: string): { mode: string; oid: string } | undefined {
  const wanted = Buffer.from(` ${name}\0`);
  for (let at = 0; at < data.length; ) {
    const space = data.indexOf(0x20, at);
    const end = data.indexOf(0, space);
    if (space === -1 || end === -1 || end + 21 > data.length) throw new Error("A tree of the repository is damaged.");

    if (end + 1 - space === wanted.length && data.compare(wanted, 0, wanted.length, space, end + 1) === 0) {
      return { mode: data.toString("latin1", at, space), oid: data.toString("hex", end + 1, end + 21) };
    }
    at = end + 21;
  }
  return undefined;
}

/** Encodes a tree with its items in git's order. */
export function encodeTree(lines: readonly TreeItem[]): Buffer {
  const sorted = lines
    .map((line) => ({ line, key: isFolder(line) ? Buffer.concat([line.name, Buffer.from("/")]) : line.name }))
    .sort((a, b) => Buffer.compare(a.key, b.key));
  return Buffer.concat(
    sorted.flatMap(({ line }) => [
      Buffer.from(`${line.mode} `),
      line.name,
      Buffer.from([0]),
      Buffer.from(line.oid, "hex"),
    ]),
  );
}

export function isFolder({ mode }: { mode: string }): boolean {
  return mode === "40000" || mode === "040000";
}

const packedTypes = { commit: 1, tree: 2, blob: 3, tag: 4 } as const;

export function encodePack(objects: readonly GitObject[]): Buffer {
  const head = Buffer.from("PACK\0\0\0\x02\0\0\0\0", "latin1");
  head.writeUInt32BE(objects.length, 8);
  const pack = Buffer.concat([head, ...objects.flatMap((object) => [packHeader(object), deflateSync(object.data)])]);
  return Buffer.concat([pack, hash("sha1", pack, "buffer")]);
}

/** Encodes the type and size of an object in a pack, with seven bits of the size in each byte after the first. */
export function packHeader({ type, data: { length } }: GitObject): Buffer {
  const bytes = [(packedTypes[type] << 4) | (length & 15)];
  for (let rest = Math.floor(length / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 128;
    bytes.push(rest & 127);
  }
  return Buffer.from(bytes);
}

/** The part of a commit that a walk over history needs. */
export type CommitLinks = Pick<Commit, "tree" | "parents" | "committed">;

/** Reads a commit without its author and message, which take most of the time. */
export function parseCommitLinks(data: Buffer): CommitLinks {
  const gap = data.indexOf("\n\n");
  const head = data.toString("latin1", 0, gap === -1 ? data.length : gap);
  const links: CommitLinks = { tree: head.slice(5, 45), parents: [], committed: new Date(0) };
  let at = 46;
  for (; head.startsWith("parent ", at); at += 48) links.parents.push(head.slice(at + 7, at + 47));
  const seconds = /^committer .*> (-?\d+) [+-]\d+$/m.exec(head.slice(at))?.[1];
  if (seconds !== undefined) links.committed = new Date(Number(seconds) * 1_000);
  return links;
}

export function parseCommit(data: Buffer): Commit {
  const text = data.toString("utf8");
  const gap = text.indexOf("\n\n");
  const head = gap === -1 ? text : text.slice(0, gap);
  const lines = head.split("\n");
  const author = parsePerson(lines.find((line) => line.startsWith("author ")));
  const committer = parsePerson(lines.find((line) => line.startsWith("committer ")));
  return {
    tree: lines.find((line) => line.startsWith("tree "))?.slice(5) ?? "",
    parents: lines.filter((line) => line.startsWith("parent ")).map((line) => line.slice(7)),
    author: author.name,
    email: author.email,
    authored: author.date,
    committed: committer.date,
    message: gap === -1 ? "" : text.slice(gap + 2),
  };
}

function parsePerson(line: string | undefined): { name: string; email: string; date: Date } {
  const match = /^\w+ (.*?) ?<(.*)> (-?\d+) [+-]\d+$/.exec(line ?? "");
  return { name: match?.[1] ?? "", email: match?.[2] ?? "", date: new Date(Number(match?.[3] ?? 0) * 1_000) };
}

/** Returns the size of the object that a delta produces. */
export function deltaResultSize(delta: Buffer): number {
  return readSizes(delta).result;
}

/** Applies a git delta to its base, at once or in parts. Throws an Error when the delta is damaged. */
export class DeltaApplier {
  readonly #delta: Buffer;
  readonly #base: Buffer;
  readonly #result: Buffer;
  #at: number;
  #filled = 0;

  constructor(delta: Buffer, base: Buffer) {
    const sizes = readSizes(delta);
    if (sizes.base !== base.length) throw damagedDelta("does not match its base");
    this.#delta = delta;
    this.#base = base;
    this.#result = Buffer.allocUnsafe(sizes.result);
    this.#at = sizes.at;
  }

  /** Applies instructions until about `maxBytes` of the delta and the result are processed. Returns true if more are left. */
  apply(maxBytes = Number.POSITIVE_INFINITY): boolean {
    // Applying an instruction takes about as long as copying this many bytes.
    const instructionBytes = 64;
    for (let done = 0; this.#at < this.#delta.length && done < maxBytes; done += instructionBytes) {
      const from = this.#next();
      if (this.#filled + from.length > this.#result.length) throw damagedDelta("is longer than its header says");
      this.#filled += from.copy(this.#result, this.#filled);
      done += from.length;
    }
    return this.#at < this.#delta.length;
  }

  result(): Buffer {
    if (this.#filled !== this.#result.length) throw damagedDelta("ends too early");
    return this.#result;
  }

  /** Returns the bytes that the next instruction adds. */
  #next(): Buffer {
    const delta = this.#delta;
    const code = delta[this.#at++] ?? 0;
    if (!(code & 128)) {
      const start = this.#at;
      if (code === 0 || start + code > delta.length) throw damagedDelta("has an invalid instruction");
      this.#at += code;
      return delta.subarray(start, start + code);
    }
    let offset = 0;
    let size = 0;
    for (let bit = 0; bit < 4; bit++) if (code & (1 << bit)) offset += (delta[this.#at++] ?? 0) * 256 ** bit;
    for (let bit = 0; bit < 3; bit++) if (code & (16 << bit)) size += (delta[this.#at++] ?? 0) * 256 ** bit;
    size ||= 0x10000;
    if (offset + size > this.#base.length) throw damagedDelta("copies from beyond its base");
    return this.#base.subarray(offset, offset + size);
  }
}

function readSizes(delta: Buffer): { base: number; result: number; at: number } {
  let at = 0;
  const next = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = delta[at++];
      if (byte === undefined) throw damagedDelta("ends too early");
      value += (byte & 127) * factor;
      if (!(byte & 128)) return value;
    }
  };
  return { base: next(), result: next(), at };
}

function damagedDelta(problem: string): Error {
  return new Error(`The pack from the git server is damaged: a delta ${problem}.`);
}
