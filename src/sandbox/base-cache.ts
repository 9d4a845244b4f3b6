import type { Base } from "./base.ts";
import type { ObjectStore } from "./object-store.ts";

/**
 * The bases of this process. Evicts the least recently used when all together are larger than `maxBytes`; a base that a
 * sandbox still uses is found all the same, since its memory is held anyway.
 */
export interface BaseCache {
  /**
   * Returns a base, and loads it when it is not cached. Concurrent loads of one base are one load, which is aborted when
   * all its callers are. The caller has checked that its own credentials can read the repository.
   */
  get(request: BaseRequest): Promise<Base>;
  /** The memory it keeps alive, in bytes. */
  bytes(): number;
}

export interface BaseRequest {
  /** The tenant and the address of the repository. */
  repository: string;
  commit: string;
  /** `previous` is the most recently used base of the same repository. */
  load(signal: AbortSignal, previous: Base | undefined): Promise<Base>;
  signal?: AbortSignal | undefined;
}

interface Loading {
  base: Promise<Base>;
  waiting: number;
  abort: AbortController;
}

export function createBaseCache(maxBytes: number): BaseCache {
  // The least recently used base comes first.
  const kept = new Map<string, { repository: string; base: Base }>();
  const alive = new Map<string, WeakRef<Base>>();
  const loading = new Map<string, Loading>();
  const registry = new FinalizationRegistry<string>((key) => {
    if (!alive.get(key)?.deref()) alive.delete(key);
  });

  function keep(key: string, repository: string, base: Base): Base {
    kept.delete(key);
    kept.set(key, { repository, base });
    for (const oldest of kept.keys()) {
      if (sizeOf(kept.values()) <= maxBytes) break;
      kept.delete(oldest);
    }
    return base;
  }

  function start(key: string, { repository, load }: BaseRequest): Loading {
    const abort = new AbortController();
    const previous = [...kept.values()].reverse().find((candidate) => candidate.repository === repository)?.base;
    const base = load(abort.signal, previous)
      .then((loaded) => {
        alive.set(key, new WeakRef(loaded));
        registry.register(loaded, key);
        return loaded;
      })
      .finally(() => {
        if (loading.get(key)?.abort === abort) loading.delete(key);
      });
    const started = { base, waiting: 0, abort };
    loading.set(key, started);
    return started;
  }

  return {
    bytes: () => sizeOf(kept.values()),
    get: async (request) => {
      const { repository, commit, signal } = request;
      const key = JSON.stringify([repository, commit]);
      signal?.throwIfAborted();
      const known = kept.get(key)?.base ?? alive.get(key)?.deref();
      if (known) return keep(key, repository, known);

      const current = loading.get(key) ?? start(key, request);
      current.waiting++;
      try {
        return keep(key, repository, await unlessAborted(current.base, signal));
      } finally {
        current.waiting--;
        if (current.waiting === 0 && signal?.aborted) {
          if (loading.get(key) === current) loading.delete(key);
          current.abort.abort(signal.reason);
        }
      }
    },
  };
}

/** The memory of bases, of which several may share a store. */
function sizeOf(kept: Iterable<{ base: Base }>): number {
  const stores = new Set<ObjectStore>();
  let bytes = 0;
  for (const { base } of kept) {
    bytes += base.bytes();
    stores.add(base.store);
  }
  for (const store of stores) bytes += store.bytes();
  return bytes;
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
