/** Remembers the promises of an asynchronous function by its arguments. */
export function memoize(load) {
  const cache = new Map();
  return (...args) => {
    const key = args.join("");
    if (!cache.has(key)) cache.set(key, load(...args));
    return cache.get(key);
  };
}
