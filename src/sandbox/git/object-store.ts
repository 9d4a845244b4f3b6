import { deflateSync, inflateSync } from "node:zlib";
import type { PromiseFsClient } from "isomorphic-git";
import { type GitObject, hashLargeObject, hashObject } from "./git-objects.ts";
import { indexPack, type PackLimits, packLimits } from "./index-pack.ts";

/** An object in a segment of the arena. */
interface StoredObject {
  type: GitObject["type"];
  /** Bytes of the content. */
  size: number;
  segment: Buffer;
  start: number;
  /** Bytes in the segment: fewer than `size` if they are compressed. */
  length: number;
  isCompressed: boolean;
}

const minSegmentBytes = 16 * 1024;
const maxSegmentBytes = 8 * 1024 ** 2;
/** Contents above this total are compressed, which takes a third of the memory but more time to read. */
const maxPlainBytes = 256 * 1024 ** 2;
/** Compressing or hashing more than this at once blocks the event loop. */
const maxSyncBytes = 4 * 1024 ** 2;
// The object id as a string, the object and its slot in the map.
const entryBytes = 180;
const separator = 0x0a;

/** Git objects in memory, only added, in segments: reads need no copy, and a search scans whole segments. */
export class ObjectStore {
  readonly #objects = new Map<string, StoredObject>();
  readonly #below: ObjectStore | undefined;
  readonly #limits: PackLimits;
  /** For each pack that is arriving, the objects that only this pack has: they are removed if it is damaged. */
  readonly #arriving = new Set<Set<string>>();
  /** The segment that is being filled. */
  #segment = Buffer.alloc(0);
  #filled = 0;
  #segmentBytes = 0;

  /** A store over `below` also reads from it, but never writes to it. */
  constructor({ below, limits = packLimits }: { below?: ObjectStore; limits?: PackLimits } = {}) {
    this.#below = below;
    this.#limits = limits;
  }

  has(oid: string): boolean {
    return this.#objects.has(oid) || (this.#below?.has(oid) ?? false);
  }

  /** Returns the size of the content in bytes; undefined for a missing object. */
  sizeOf(oid: string): number | undefined {
    return this.#objects.get(oid)?.size ?? this.#below?.sizeOf(oid);
  }

  /** Returns an object. Its content is shared and must not be modified. */
  read(oid: string): GitObject | undefined {
    const object = this.#objects.get(oid);
    if (!object) return this.#below?.read(oid);
    const { type, segment, start, length, isCompressed } = object;
    const stored = segment.subarray(start, start + length);
    return { type, data: isCompressed ? inflateSync(stored) : stored };
  }

  /** Returns the position of a content in shared memory, where a line break follows it; undefined if it is missing or compressed. */
  locate(oid: string): { segment: Buffer; start: number; end: number } | undefined {
    const object = this.#objects.get(oid);
    if (!object) return this.#below?.locate(oid);
    const { segment, start, length, isCompressed } = object;
    return isCompressed ? undefined : { segment, start, end: start + length };
  }

  /** Adds an object and returns its id. */
  add(object: GitObject): string {
    const oid = hashObject(object);
    this.#put(oid, object);
    return oid;
  }

  /** Adds all objects of a pack, or none when it is damaged or too large. Yields to the event loop. */
  async addPack(pack: AsyncIterable<Buffer> | Iterable<Buffer>, signal?: AbortSignal): Promise<void> {
    const added = new Set<string>();
    this.#arriving.add(added);
    try {
      await indexPack(pack, {
        limits: this.#limits,
        signal,
        read: (oid) => this.read(oid),
        add: (object) => {
          const put = (oid: string) => {
            this.#put(oid, object, added);
            return oid;
          };
          return object.data.length > maxSyncBytes ? hashLargeObject(object).then(put) : put(hashObject(object));
        },
      });
    } catch (error) {
      for (const oid of added) this.#objects.delete(oid);
      throw error;
    } finally {
      this.#arriving.delete(added);
    }
  }

  /** Returns the ids of its own objects, without the store below it. */
  oids(): string[] {
    return [...this.#objects.keys()];
  }

  /** Returns the memory it uses in bytes, without the store below it. */
  bytes(): number {
    return this.#objects.size === 0 ? 0 : this.#segmentBytes + this.#objects.size * entryBytes;
  }

  #put(oid: string, { type, data }: GitObject, added?: Set<string>): void {
    if (this.has(oid)) {
      for (const others of this.#arriving) if (others !== added) others.delete(oid);
      return;
    }
    const isCompressed = this.#segmentBytes > maxPlainBytes && data.length <= maxSyncBytes;
    const stored = isCompressed ? deflateSync(data, { level: 1 }) : data;
    const { segment, start } = this.#append(stored);
    this.#objects.set(oid, { type, size: data.length, segment, start, length: stored.length, isCompressed });
    added?.add(oid);
  }

  #append(data: Buffer): { segment: Buffer; start: number } {
    const needed = data.length + 1;
    let segment = this.#segment;
    let start = this.#filled;
    if (needed > segment.length - start) {
      const next = Math.min(Math.max(minSegmentBytes, 2 * segment.length), maxSegmentBytes);
      const isLarge = needed > next / 2;
      segment = Buffer.allocUnsafeSlow(isLarge ? needed : next);
      start = 0;
      this.#segmentBytes += segment.length;
      // A large object gets a separate segment, and the current one stays in use.
      if (!isLarge) this.#segment = segment;
    }
    data.copy(segment, start);
    segment[start + data.length] = separator;
    if (segment === this.#segment) this.#filled = start + needed;
    return { segment, start };
  }
}

/** The virtual git directory that isomorphic-git works in. */
export const gitdir = "/git";

/** Presents an object store to isomorphic-git as a git directory of loose objects. */
export function createGitFs(store: ObjectStore): PromiseFsClient {
  const readObject = (path: string): Buffer | undefined => {
    const object = store.read(oidOf(path));
    if (!object) return undefined;
    const head = Buffer.from(`${object.type} ${object.data.length}\0`);
    return deflateSync(Buffer.concat([head, object.data]), { level: 1 });
  };
  const stat = async (path: string) => {
    const isDirectory = path === gitdir;
    if (!isDirectory && !store.has(oidOf(path))) throw notFoundError(path);
    return { isDirectory: () => isDirectory, isFile: () => !isDirectory, isSymbolicLink: () => false };
  };
  const refuse = async (path: string): Promise<never> => {
    throw notFoundError(path);
  };
  return {
    promises: {
      readFile: async (path: string, options?: unknown) => {
        const found = readObject(path);
        if (!found) throw notFoundError(path);
        return isText(options) ? found.toString("utf8") : found;
      },
      writeFile: async (path: string, data: Uint8Array) => {
        store.add(unwrap(inflateSync(data)));
        if (!store.has(oidOf(path))) throw new Error(`isomorphic-git wrote a file that is not an object: ${path}`);
      },
      readdir: async () => [],
      mkdir: async () => {},
      stat,
      lstat: stat,
      unlink: refuse,
      rmdir: refuse,
      readlink: refuse,
      symlink: refuse,
      chmod: refuse,
    },
  };
}

function oidOf(path: string): string {
  return /\/objects\/([0-9a-f]{2})\/([0-9a-f]{38})$/.exec(path)?.slice(1).join("") ?? "";
}

function unwrap(wrapped: Buffer): GitObject {
  const end = wrapped.indexOf(0);
  const type = wrapped.toString("latin1", 0, wrapped.indexOf(0x20)) as GitObject["type"];
  return { type, data: wrapped.subarray(end + 1) };
}

function isText(options: unknown): boolean {
  if (typeof options === "string") return true;
  return typeof options === "object" && options !== null && "encoding" in options && options.encoding === "utf8";
}

function notFoundError(path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`ENOENT: no such file, ${path}`), { code: "ENOENT" });
}
