import { LRUCache } from "lru-cache";

/**
 * Creates a cache that keeps the entries used last. With the option `max`, lru-cache would allocate room for all of them in
 * advance, which takes a millisecond for 10,000.
 */
export function createBoundedCache<Key extends {}, Value extends {}>(maxEntries: number): LRUCache<Key, Value> {
  return new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
}
