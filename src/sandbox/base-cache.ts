import type { Base } from "./base.ts";

/**
 * The bases of this process, by key. The least used are let go when all together are larger than `maxBytes`; one that a
 * sandbox still stands on is found again all the same, since its memory is held anyway.
 */
export interface BaseCache {
  /**
   * The base of this key, loading it when it is not there. Loads of one key at the same time are one load, which goes
   * on until the last one waiting for it gives up. The caller has checked that its own credentials open the repository.
   */
  get(key: string, load: (signal: AbortSignal) => Promise<Base>, signal: AbortSignal | undefined): Promise<Base>;
  /** How many bytes it keeps alive by itself. */
  bytes(): number;
}

interface Loading {
  base: Promise<Base>;
  waiting: number;
  stop: AbortController;
}

export function createBaseCache(maxBytes: number): BaseCache {
  const kept = new Map<string, Base>();
  const alive = new Map<string, WeakRef<Base>>();
  const loading = new Map<string, Loading>();
  const forget = new FinalizationRegistry<string>((key) => {
    if (!alive.get(key)?.deref()) alive.delete(key);
  });
  const bytes = () => [...kept.values()].reduce((sum, base) => sum + base.bytes(), 0);

  function keep(key: string, base: Base): Base {
    // Last in the map is the one used last.
    kept.delete(key);
    kept.set(key, base);
    let total = bytes();
    for (const [oldest, old] of kept) {
      if (total <= maxBytes) break;
      kept.delete(oldest);
      total -= old.bytes();
    }
    return base;
  }

  function start(key: string, load: (signal: AbortSignal) => Promise<Base>): Loading {
    const stop = new AbortController();
    const base = load(stop.signal)
      .then((loaded) => {
        alive.set(key, new WeakRef(loaded));
        forget.register(loaded, key);
        return loaded;
      })
      .finally(() => {
        if (loading.get(key)?.stop === stop) loading.delete(key);
      });
    const begun = { base, waiting: 0, stop };
    loading.set(key, begun);
    return begun;
  }

  return {
    bytes,
    get: async (key, load, signal) => {
      signal?.throwIfAborted();
      const known = kept.get(key) ?? alive.get(key)?.deref();
      if (known) return keep(key, known);

      const current = loading.get(key) ?? start(key, load);
      current.waiting++;
      try {
        return keep(key, await unlessAborted(current.base, signal));
      } finally {
        current.waiting--;
        if (current.waiting === 0 && signal?.aborted) {
          if (loading.get(key) === current) loading.delete(key);
          current.stop.abort(signal.reason);
        }
      }
    },
  };
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
