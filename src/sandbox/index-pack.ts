import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { inflateSync } from "node:zlib";
import { UserError } from "#domain/errors.ts";
import type { Recent } from "./byte-cache.ts";
import { type GitObject, hashObject } from "./git-objects.ts";
import type { PackLimits } from "./pack-limits.ts";

/** Where an object lies in a pack; a delta is read on top of its base. */
export interface PackedObject {
  type: GitObject["type"];
  /** Bytes, unpacked. */
  size: number;
  pack: Buffer;
  /** Where its compressed bytes start, and how many they become. */
  start: number;
  inflated: number;
  base: PackedObject | GitObject | undefined;
}

interface Unresolved {
  offset: number;
  start: number;
  inflated: number;
  baseOffset?: number;
  baseOid?: string;
}

export interface IndexPackOptions {
  /** Finds the bases of a thin pack. */
  find(oid: string): PackedObject | GitObject | undefined;
  recent: Recent<PackedObject>;
  limits: PackLimits;
  signal?: AbortSignal | undefined;
}

const typeOfCode: Record<number, GitObject["type"]> = { 1: "commit", 2: "tree", 3: "blob", 4: "tag" };
const offsetDelta = 6;
const refDelta = 7;
const turnMs = 15;

/**
 * Reads a whole pack once and says where each object is. Throws a UserError when the repository is too large, and an
 * Error when the pack is damaged. Gives other work a turn in between.
 */
export async function indexPack(pack: Buffer, options: IndexPackOptions): Promise<Map<string, PackedObject>> {
  const count = checkFrame(pack, options.limits);
  const found = new Map<string, PackedObject>();
  const byOffset = new Map<number, PackedObject>();
  const children = new Map<number | string, Unresolved[]>();
  const budget = createBudget(options.limits);
  const turn = createTurns(options.signal);

  let unresolved = 0;
  let at = 12;
  for (let index = 0; index < count; index++) {
    await turn();
    const header = readHeader(pack, at);
    budget(header.inflated);
    const { data, used } = inflate(pack, header.start, header.inflated);
    const type = typeOfCode[header.code];
    if (type) {
      const object: PackedObject = {
        type,
        size: data.length,
        pack,
        start: header.start,
        inflated: header.inflated,
        base: undefined,
      };
      found.set(hashObject({ type, data }), object);
      byOffset.set(at, object);
    } else {
      const base = header.baseOid ?? header.baseOffset ?? -1;
      children.set(base, [...(children.get(base) ?? []), { offset: at, ...header }]);
      unresolved++;
    }
    at = header.start + used;
  }
  if (at !== pack.length - 20) throw damaged("it is longer than it says");

  const stack: { object: PackedObject | GitObject; data: Buffer; keys: (number | string)[] }[] = [];
  const resolveFrom = async (object: PackedObject | GitObject, keys: (number | string)[]) => {
    stack.push({ object, data: readPacked(object, options.recent), keys });
    for (let top = stack.pop(); top; top = stack.pop()) {
      for (const child of takeChildren(children, top.keys)) {
        await turn();
        const delta = inflate(pack, child.start, child.inflated).data;
        budget(deltaResultSize(delta));
        const data = applyDelta(delta, top.data);
        const type = top.object.type;
        const { start, inflated } = child;
        const packed: PackedObject = { type, size: data.length, pack, start, inflated, base: top.object };
        const oid = hashObject({ type, data });
        found.set(oid, packed);
        unresolved--;
        stack.push({ object: packed, data, keys: [child.offset, oid] });
      }
    }
  };
  const roots = [...found.entries()].map(([oid, object]) => ({ oid, object }));
  const offsetOf = new Map([...byOffset].map(([offset, object]) => [object, offset]));
  for (const { oid, object } of roots) {
    const keys = [offsetOf.get(object) ?? -1, oid].filter((key) => children.has(key));
    if (keys.length > 0) await resolveFrom(object, keys);
  }
  for (const base of [...children.keys()]) {
    const external = typeof base === "string" ? options.find(base) : undefined;
    if (external) await resolveFrom(external, [base]);
  }
  if (unresolved > 0) throw damaged("it lacks objects that others are built on");

  return found;
}

/** The bytes of an object, built up from the base of its base. They belong to whoever reads next, too: do not write to them. */
export function readPacked(object: PackedObject | GitObject, recent: Recent<PackedObject>): Buffer {
  const line: PackedObject[] = [];
  let current: PackedObject | GitObject | undefined = object;
  while (current && !("data" in current) && !recent.has(current)) {
    line.push(current);
    current = current.base;
  }
  let data = current && ("data" in current ? current.data : recent.get(current));
  for (const packed of line.reverse()) {
    const inflated = inflate(packed.pack, packed.start, packed.inflated).data;
    data = data ? applyDelta(inflated, data) : inflated;
    recent.set(packed, data);
  }
  return data ?? Buffer.alloc(0);
}

function takeChildren(children: Map<number | string, Unresolved[]>, keys: (number | string)[]): Unresolved[] {
  return keys.flatMap((key) => {
    const taken = children.get(key) ?? [];
    children.delete(key);
    return taken;
  });
}

function checkFrame(pack: Buffer, limits: PackLimits): number {
  if (pack.length < 32 || pack.toString("latin1", 0, 4) !== "PACK") throw damaged("it does not start like one");
  if (![2, 3].includes(pack.readUInt32BE(4))) throw damaged("it has an unknown version");

  const end = pack.length - 20;
  if (!createHash("sha1").update(pack.subarray(0, end)).digest().equals(pack.subarray(end))) {
    throw damaged("its checksum is wrong");
  }
  const count = pack.readUInt32BE(8);
  if (count > limits.objects) throw new UserError(`The repository has too many files to work on: ${count} objects.`);
  return count;
}

function readHeader(pack: Buffer, offset: number) {
  let at = offset;
  let byte = pack[at++] ?? 0;
  const code = (byte >> 4) & 7;
  let inflated = byte & 15;
  for (let factor = 16; byte & 128; factor *= 128) {
    byte = pack[at++] ?? 0;
    inflated += (byte & 127) * factor;
  }
  if (code === refDelta) return { code, inflated, start: at + 20, baseOid: pack.toString("hex", at, at + 20) };
  if (code !== offsetDelta) {
    if (!typeOfCode[code]) throw damaged("it has an object of no known type");
    return { code, inflated, start: at };
  }
  byte = pack[at++] ?? 0;
  let distance = byte & 127;
  while (byte & 128) {
    byte = pack[at++] ?? 0;
    distance = (distance + 1) * 128 + (byte & 127);
  }
  return { code, inflated, start: at, baseOffset: offset - distance };
}

function inflate(pack: Buffer, start: number, size: number): { data: Buffer; used: number } {
  try {
    const options = { info: true, maxOutputLength: size + 1, chunkSize: Math.min(Math.max(size + 64, 64), 1 << 20) };
    // The types do not know `info`, which the documentation has.
    const result = inflateSync(pack.subarray(start, -20), options) as unknown as {
      buffer: Buffer;
      engine: { bytesWritten: number };
    };
    if (result.buffer.length === size) return { data: result.buffer, used: result.engine.bytesWritten };
  } catch (error) {
    throw damaged("an object cannot be unpacked", error);
  }
  throw damaged("an object has not the size it claims");
}

function deltaSizes(delta: Buffer): { base: number; result: number; at: number } {
  let at = 0;
  const next = () => {
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = delta[at++];
      if (byte === undefined) throw damaged("a delta ends too early");
      value += (byte & 127) * factor;
      if (!(byte & 128)) return value;
      factor *= 128;
    }
  };
  return { base: next(), result: next(), at };
}

function deltaResultSize(delta: Buffer): number {
  return deltaSizes(delta).result;
}

function applyDelta(delta: Buffer, base: Buffer): Buffer {
  const sizes = deltaSizes(delta);
  if (sizes.base !== base.length) throw damaged("a delta does not fit its base");

  const result = Buffer.allocUnsafe(sizes.result);
  let at = sizes.at;
  let filled = 0;
  const byte = () => delta[at++] ?? 0;
  while (at < delta.length) {
    const code = byte();
    let from: Buffer;
    if (code & 128) {
      let offset = 0;
      let size = 0;
      for (let bit = 0; bit < 4; bit++) if (code & (1 << bit)) offset += byte() * 256 ** bit;
      for (let bit = 0; bit < 3; bit++) if (code & (16 << bit)) size += byte() * 256 ** bit;
      size ||= 0x10000;
      if (offset + size > base.length) throw damaged("a delta copies from beyond its base");
      from = base.subarray(offset, offset + size);
    } else {
      if (code === 0 || at + code > delta.length) throw damaged("a delta makes no sense");
      from = delta.subarray(at, at + code);
      at += code;
    }
    if (filled + from.length > result.length) throw damaged("a delta writes beyond its end");
    filled += from.copy(result, filled);
  }
  if (filled !== result.length) throw damaged("a delta ends too early");
  return result;
}

function createBudget({ object, total }: PackLimits): (size: number) => void {
  let left = total;
  return (size) => {
    left -= size;
    if (size > object) {
      throw new UserError(
        `The repository holds a file of more than ${megabytes(object)} MB, which is too large to work on.`,
      );
    }
    if (left < 0) {
      throw new UserError(`The repository is too large to work on: its files are more than ${megabytes(total)} MB.`);
    }
  };
}

function createTurns(signal: AbortSignal | undefined): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < turnMs) return undefined;
    return setImmediate().then(() => {
      signal?.throwIfAborted();
      since = performance.now();
    });
  };
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1024 ** 2);
}

function damaged(what: string, cause?: unknown): Error {
  return new Error(`The pack the git server sent is damaged: ${what}.`, { cause });
}
