import { createRecent } from "./byte-cache.ts";
import { type GitObject, hashObject } from "./git-objects.ts";
import { indexPack, type PackedObject, readPacked } from "./index-pack.ts";
import { type PackLimits, packLimits } from "./pack-limits.ts";

/** Git objects held in memory, by oid. Objects are only ever added. */
export interface ObjectStore {
  has(oid: string): boolean;
  /** Bytes of the content; undefined when the object is not there. */
  sizeOf(oid: string): number | undefined;
  read(oid: string): GitObject | undefined;
  /** Adds one object and gives its oid. */
  add(object: GitObject): string;
  addPack(pack: Buffer, signal?: AbortSignal): Promise<void>;
  /** About how many bytes of memory it holds, without what it stands on. */
  bytes(): number;
}

// What an entry costs in the map: the oid as a string, the object and its slot.
const entryBytes = 250;
const recentBytes = 16 * 1024 ** 2;

/** A store of its own; with `below`, one that also has everything the other has and never writes to it. */
export function createObjectStore(below?: ObjectStore, limits: PackLimits = packLimits): ObjectStore {
  const objects = new Map<string, PackedObject | GitObject>();
  // What was read last is likely to be read again, or to be what the next object is built on.
  const recent = createRecent<PackedObject>(recentBytes);
  let held = 0;

  return {
    has: (oid) => objects.has(oid) || (below?.has(oid) ?? false),
    sizeOf: (oid) => {
      const object = objects.get(oid);
      if (!object) return below?.sizeOf(oid);
      return "data" in object ? object.data.length : object.size;
    },
    read: (oid) => {
      const object = objects.get(oid);
      if (!object) return below?.read(oid);
      return "data" in object ? object : { type: object.type, data: readPacked(object, recent) };
    },
    add: (object) => {
      const oid = hashObject(object);
      if (!objects.has(oid) && !below?.has(oid)) {
        objects.set(oid, object);
        held += object.data.length + entryBytes;
      }
      return oid;
    },
    addPack: async (pack, signal) => {
      const find = (oid: string) => objects.get(oid) ?? below?.read(oid);
      const found = await indexPack(pack, { find, limits, recent, signal });
      for (const [oid, object] of found) if (!objects.has(oid)) objects.set(oid, object);
      held += pack.length + found.size * entryBytes;
    },
    bytes: () => held,
  };
}
