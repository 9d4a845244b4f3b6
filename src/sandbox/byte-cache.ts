/** Bytes by key, as many as fit: the ones used longest ago go first. */
export interface Recent<Key> {
  has(key: Key): boolean;
  get(key: Key): Buffer | undefined;
  set(key: Key, data: Buffer): void;
}

export function createRecent<Key>(maxBytes: number): Recent<Key> {
  const kept = new Map<Key, Buffer>();
  let held = 0;

  function drop(key: Key): void {
    held -= kept.get(key)?.length ?? 0;
    kept.delete(key);
  }

  function set(key: Key, data: Buffer): void {
    drop(key);
    // One large file is not worth all the small ones.
    if (data.length > maxBytes / 4) return;

    kept.set(key, data);
    held += data.length;
    for (const [oldest] of kept) {
      if (held <= maxBytes) break;
      drop(oldest);
    }
  }

  return {
    has: (key) => kept.has(key),
    get: (key) => {
      const data = kept.get(key);
      if (data) set(key, data);
      return data;
    },
    set,
  };
}
