const remembered = 5_000;

/**
 * Gives the function that does the work of a key once: whoever comes with the same key meanwhile waits for it, and
 * whoever comes later finds it done. Work that failed may be done again.
 */
export function createOnce(): (key: string, work: () => Promise<void>) => Promise<void> {
  const done = new Map<string, Promise<void>>();

  return (key, work) => {
    const known = done.get(key);
    if (known !== undefined) return known;

    const doing = work();
    done.set(key, doing);
    doing.catch(() => done.delete(key));
    const oldest = done.keys().next().value;
    if (done.size > remembered && oldest !== undefined) done.delete(oldest);
    return doing;
  };
}
