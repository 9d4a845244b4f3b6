import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { constants, inflateSync, inflate as inflateWithCallback } from "node:zlib";
import { EventLoopYielder } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import { DeltaApplier, deltaResultSize, type GitObject } from "./git-objects.ts";

/** The maximum sizes of a repository. The sizes in a pack cannot be trusted. */
export const packLimits = {
  /** Bytes transferred in one response. */
  pack: 300 * 1024 ** 2,
  /** One object, unpacked. */
  object: 100 * 1024 ** 2,
  /** All objects of one pack, unpacked. */
  total: 2 * 1024 ** 3,
  objects: 2_000_000,
};
export type PackLimits = typeof packLimits;

export interface IndexPackOptions {
  limits: PackLimits;
  signal: AbortSignal | undefined;
  /** Returns an object that was added before, or the base of a thin pack's delta. */
  read(oid: string): GitObject | undefined;
  /** Adds an object and returns its id. */
  add(object: GitObject): string | Promise<string>;
}

/** A delta whose base has not been added yet. */
interface PendingDelta {
  offset: number;
  delta: Buffer;
}

interface ObjectHeader {
  type: GitObject["type"] | "delta";
  /** Bytes of the content, or of the delta. */
  size: number;
  /** The position of the compressed bytes. */
  start: number;
  /** The base of a delta: an offset in the pack, or an object id. */
  base: number | string | undefined;
}

const typeByCode: Record<number, GitObject["type"]> = { 1: "commit", 2: "tree", 3: "blob", 4: "tag" };
const offsetDelta = 6;
const refDelta = 7;
const packHeaderBytes = 12;
const checksumBytes = 20;
// Ten bytes for the size, and the longer of an offset and an object id.
const maxObjectHeaderBytes = 30;

/**
 * Adds the objects of a pack while it arrives. Written by hand because isomorphic-git needs the whole pack first,
 * decompresses each object in JavaScript, and takes five times as long as git (see docs/benchmarks.md). Throws a
 * UserError when the repository is too large, and an Error when the pack is damaged.
 */
export async function indexPack(
  pack: AsyncIterable<Buffer> | Iterable<Buffer>,
  options: IndexPackOptions,
): Promise<void> {
  const indexer = new PackIndexer(options);
  const yielder = new EventLoopYielder({ signal: options.signal });
  for await (const chunk of pack) {
    indexer.push(chunk);
    await run(indexer, yielder);
  }
  indexer.end();
  await run(indexer, yielder);
  indexer.check();
}

async function run(indexer: PackIndexer, yielder: EventLoopYielder): Promise<void> {
  for (;;) {
    const step = indexer.next();
    // Only steps for large objects return promises: one per object would take longer than the work.
    if (!(typeof step === "boolean" ? step : await step)) return;
    if (yielder.isDue) await yielder.turn();
  }
}

/** Objects above this size are unpacked and hashed without blocking the event loop. */
const maxSyncBytes = 2 * 1024 ** 2;

class PackIndexer {
  readonly #options: IndexPackOptions;
  readonly #checksum = createHash("sha1");
  /** Unread bytes. The first one is at `#offset` of the pack. */
  #buffer: Buffer = Buffer.alloc(0);
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** The minimum number of bytes that the next step needs. */
  #neededBytes = packHeaderBytes;
  #offset = 0;
  /** The number of remaining objects; undefined before the header was read. */
  #objectsLeft: number | undefined;
  #bytesLeft: number;
  readonly #oidByOffset = new Map<number, string>();
  readonly #pending = new Map<number | string, PendingDelta[]>();
  /** Deltas whose base has been added in the meantime. */
  readonly #ready: { baseOid: string; delta: PendingDelta }[] = [];
  #hasEnded = false;

  constructor(options: IndexPackOptions) {
    this.#options = options;
    this.#bytesLeft = options.limits.total;
  }

  push(chunk: Buffer): void {
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
  }

  /** Marks the end of the input. */
  end(): void {
    this.#hasEnded = true;
    this.#neededBytes = 1;
  }

  /** Takes one step: reads the header or an object, or applies a delta. Returns false when it needs more bytes or is done. */
  next(): boolean | Promise<boolean> {
    const ready = this.#ready.pop();
    if (ready) {
      const base = this.#options.read(ready.baseOid);
      return base ? this.#resolve(base, ready.delta) : true;
    }
    if (this.#objectsLeft === 0) return false;
    if (this.#buffer.length < this.#neededBytes) {
      const isEnough = this.#buffer.length + this.#waitingBytes >= this.#neededBytes;
      if (this.#waitingBytes === 0 || !(isEnough || this.#hasEnded)) return false;
      this.#buffer = Buffer.concat([this.#buffer, ...this.#waiting]);
      this.#waiting = [];
      this.#waitingBytes = 0;
    }
    return this.#objectsLeft === undefined ? this.#readPackHeader() : this.#readObject();
  }

  /** Throws if the pack was incomplete. */
  check(): void {
    const rest = Buffer.concat([this.#buffer, ...this.#waiting]);
    if (this.#objectsLeft !== 0) throw damaged("it ends too early");
    if (rest.length > checksumBytes) throw damaged("it is longer than its header says");
    if (!this.#checksum.digest().equals(rest)) throw damaged("its checksum is wrong");
    if (this.#pending.size > 0) throw damaged("objects that others are based on are missing");
  }

  #readPackHeader(): boolean {
    const header = this.#buffer;
    if (header.length < packHeaderBytes) return false;
    if (header.toString("latin1", 0, 4) !== "PACK") throw damaged("it has no pack header");
    if (![2, 3].includes(header.readUInt32BE(4))) throw damaged("it has an unknown version");
    this.#objectsLeft = header.readUInt32BE(8);
    if (this.#objectsLeft > this.#options.limits.objects) {
      throw new UserError(`The repository has too many files to work on: ${this.#objectsLeft} objects.`);
    }
    this.#consume(packHeaderBytes);
    return true;
  }

  #readObject(): boolean | Promise<boolean> {
    const header = readObjectHeader(this.#buffer, this.#offset);
    if (!header) return this.#needMore(maxObjectHeaderBytes);
    this.#budget(header.size);
    // An attempt with a part of a large object is lost work, and few files are compressed to less than this.
    const likelyBytes = header.start + Math.floor(header.size / 5);
    if (this.#buffer.length < likelyBytes && !this.#hasEnded) return this.#waitForRest(header, likelyBytes);
    if (header.size > maxSyncBytes) return this.#readLargeObject(header);
    const inflated = inflate(this.#buffer, header);
    if (!inflated.isComplete) return this.#waitForRest(header, this.#estimate(header, inflated));
    const offset = this.#offset;
    this.#consume(header.start + inflated.used);
    return this.#addRead(header, offset, inflated.data);
  }

  async #readLargeObject(header: ObjectHeader): Promise<boolean> {
    const inflated = await inflateLarge(this.#buffer, header);
    if (!inflated.isComplete) return this.#waitForRest(header, this.#estimate(header, inflated));
    const offset = this.#offset;
    const end = offset + header.start + inflated.used;
    const loop = new EventLoopYielder({ signal: this.#options.signal });
    while (this.#offset < end) {
      this.#consume(Math.min(end - this.#offset, maxSyncBytes));
      if (loop.isDue) await loop.turn();
    }
    return this.#addRead(header, offset, inflated.data);
  }

  /** An object counts only after all its bytes have arrived. */
  #waitForRest({ size }: ObjectHeader, likelyBytes: number): boolean {
    this.#bytesLeft += size;
    return this.#needMore(likelyBytes);
  }

  /** Estimates the compressed size of an object from a part of it. No object is compressed to much more than its size. */
  #estimate({ start, size }: ObjectHeader, { data, used }: InflatedObject): number {
    return start + Math.ceil(Math.min(1.02 * used * (size / Math.max(1, data.length)), size + size / 1_000 + 64));
  }

  #addRead({ type, base }: ObjectHeader, offset: number, data: Buffer): boolean | Promise<boolean> {
    if (this.#objectsLeft !== undefined) this.#objectsLeft--;
    if (type !== "delta") return this.#add(offset, { type, data });
    return base === undefined ? true : this.#addDelta(base, { offset, delta: data });
  }

  #needMore(bytes: number): boolean {
    this.#neededBytes = Math.max(bytes, this.#buffer.length + 1);
    return this.#waitingBytes > 0;
  }

  #consume(length: number): void {
    this.#checksum.update(this.#buffer.subarray(0, length));
    this.#buffer = this.#buffer.subarray(length);
    this.#offset += length;
    this.#neededBytes = 1;
  }

  #addDelta(base: number | string, delta: PendingDelta): boolean | Promise<boolean> {
    const oid = typeof base === "string" ? base : this.#oidByOffset.get(base);
    const object = oid === undefined ? undefined : this.#options.read(oid);
    if (object) return this.#resolve(object, delta);
    this.#pending.getOrInsert(base, []).push(delta);
    return true;
  }

  #resolve({ type, data: base }: GitObject, { offset, delta }: PendingDelta): boolean | Promise<boolean> {
    const size = deltaResultSize(delta);
    this.#budget(size);
    const applier = new DeltaApplier(delta, base);
    if (Math.max(size, delta.length) > maxSyncBytes) return this.#resolveLarge(applier, { type, offset });
    applier.apply();
    return this.#add(offset, { type, data: applier.result() });
  }

  async #resolveLarge(applier: DeltaApplier, { type, offset }: Pick<GitObject, "type"> & { offset: number }) {
    const loop = new EventLoopYielder({ signal: this.#options.signal });
    while (applier.apply(maxSyncBytes)) if (loop.isDue) await loop.turn();
    return this.#add(offset, { type, data: applier.result() });
  }

  #add(offset: number, object: GitObject): boolean | Promise<boolean> {
    const oid = this.#options.add(object);
    if (typeof oid !== "string") return oid.then((known) => this.#added(offset, known));
    return this.#added(offset, oid);
  }

  #added(offset: number, oid: string): true {
    this.#oidByOffset.set(offset, oid);
    for (const key of [offset, oid]) {
      for (const delta of this.#pending.get(key) ?? []) this.#ready.push({ baseOid: oid, delta });
      this.#pending.delete(key);
    }
    return true;
  }

  #budget(size: number): void {
    const { object, total } = this.#options.limits;
    this.#bytesLeft -= size;
    if (size > object) {
      throw new UserError(
        `The repository contains a file of more than ${megabytes(object)} MB, which is too large to work on.`,
      );
    }
    if (this.#bytesLeft < 0) {
      throw new UserError(`The repository is too large to work on: its files have more than ${megabytes(total)} MB.`);
    }
  }
}

/** Reads the header of an object at the start of a buffer; undefined when more bytes are needed. */
function readObjectHeader(buffer: Buffer, offset: number): ObjectHeader | undefined {
  let at = 0;
  let byte = buffer[at++];
  if (byte === undefined) return undefined;
  const code = (byte >> 4) & 7;
  let size = byte & 15;
  for (let factor = 16; byte & 128; factor *= 128) {
    byte = buffer[at++];
    if (byte === undefined) return undefined;
    if (at > 10) throw damaged("an object has an impossible size");
    size += (byte & 127) * factor;
  }
  if (code === refDelta) {
    if (at + 20 > buffer.length) return undefined;
    return { type: "delta", size, start: at + 20, base: buffer.toString("hex", at, at + 20) };
  }
  if (code !== offsetDelta) {
    const type = typeByCode[code];
    if (!type) throw damaged("it has an object of an unknown type");
    return { type, size, start: at, base: undefined };
  }
  byte = buffer[at++];
  if (byte === undefined) return undefined;
  let distance = byte & 127;
  while (byte & 128) {
    byte = buffer[at++];
    if (byte === undefined) return undefined;
    distance = (distance + 1) * 128 + (byte & 127);
  }
  if (distance === 0 || distance > offset) throw damaged("a delta has no base");
  return { type: "delta", size, start: at, base: offset - distance };
}

interface Inflated {
  buffer: Buffer;
  engine: { bytesWritten: number };
}

/** A decompressed object, or the part of it whose bytes have arrived. */
interface InflatedObject {
  isComplete: boolean;
  data: Buffer;
  used: number;
}

function inflate(buffer: Buffer, { start, size }: ObjectHeader): InflatedObject {
  const compressed = buffer.subarray(start);
  try {
    // The types lack the documented option `info`.
    const inflated = inflateSync(compressed, inflateOptions(size)) as unknown as Inflated;
    return checkInflated(inflated, { compressed, size });
  } catch (error) {
    throw cannotInflate(error);
  }
}

/** Decompresses an object in another thread. */
async function inflateLarge(buffer: Buffer, { start, size }: ObjectHeader): Promise<InflatedObject> {
  const compressed = buffer.subarray(start);
  try {
    const inflated = (await promisify(inflateWithCallback)(compressed, inflateOptions(size))) as unknown as Inflated;
    return checkInflated(inflated, { compressed, size });
  } catch (error) {
    throw cannotInflate(error);
  }
}

function inflateOptions(size: number) {
  return {
    info: true,
    maxOutputLength: size + 1,
    chunkSize: Math.min(Math.max(size + 64, 64), 1 << 20),
    // A truncated object is not an error, since the rest has not arrived yet.
    finishFlush: constants.Z_SYNC_FLUSH,
  };
}

function checkInflated(
  { buffer, engine }: Inflated,
  { compressed, size }: { compressed: Buffer; size: number },
): InflatedObject {
  const used = engine.bytesWritten;
  // The checksum of the pack follows the last object, so there are bytes after each complete one.
  const isComplete = used < compressed.length;
  if (isComplete && buffer.length !== size) throw damaged("an object does not have the size that its header says");
  return { isComplete, data: buffer, used };
}

function cannotInflate(error: unknown): Error {
  return error instanceof DamagedPackError ? error : damaged("an object cannot be decompressed", error);
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1024 ** 2);
}

class DamagedPackError extends Error {}

function damaged(reason: string, cause?: unknown): Error {
  return new DamagedPackError(`The pack from the git server is damaged: ${reason}.`, { cause });
}
