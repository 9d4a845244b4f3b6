import { DatabaseError } from "#domain/errors.ts";

interface Waiting<Item, Result> extends PromiseWithResolvers<Result> {
  item: Item;
}

interface WriteBatchesOptions<Item> {
  /** The number of transactions at the same time. */
  maxConcurrent: number;
  /** The number of items that one transaction stores. */
  maxItems: number;
  /** True for an item that needs a transaction of its own. */
  isAlone?: (item: Item) => boolean;
}

/**
 * Groups writes that are requested during a transaction into the next one, since statements and commits cost more than
 * rows. If a transaction fails for another reason than the database, each of its items is stored separately, so that one
 * item cannot fail others.
 */
export class WriteBatches<Item, Result> {
  readonly #store: (items: readonly Item[]) => Promise<Result[]>;
  readonly #options: WriteBatchesOptions<Item>;
  readonly #waiting: Waiting<Item, Result>[] = [];
  #running = 0;

  /** `store` stores items, which do not depend on one another, in one transaction, and returns their results in order. */
  constructor(store: (items: readonly Item[]) => Promise<Result[]>, options: WriteBatchesOptions<Item>) {
    this.#store = store;
    this.#options = options;
  }

  write(item: Item): Promise<Result> {
    const waiting = { item, ...Promise.withResolvers<Result>() };
    this.#waiting.push(waiting);
    if (this.#running < this.#options.maxConcurrent) void this.#storeWaiting();
    return waiting.promise;
  }

  async #storeWaiting(): Promise<void> {
    this.#running += 1;
    // Writes that are requested in the same turn of the event loop are stored together.
    await new Promise((resolve) => setImmediate(resolve));
    for (let batch = this.#take(); batch.length > 0; batch = this.#take()) await this.#storeBatch(batch);
    this.#running -= 1;
  }

  #take(): Waiting<Item, Result>[] {
    const { isAlone = () => false, maxItems } = this.#options;
    const alone = this.#waiting.findIndex(({ item }) => isAlone(item));
    if (alone === 0) return this.#waiting.splice(0, 1);
    return this.#waiting.splice(0, alone < 0 ? maxItems : Math.min(alone, maxItems));
  }

  async #storeBatch(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#store(batch.map(({ item }) => item));
      batch.forEach(({ resolve }, index) => {
        resolve(results[index] as Result);
      });
    } catch (error) {
      if (batch.length > 1 && !(error instanceof DatabaseError)) {
        for (const waiting of batch) await this.#storeBatch([waiting]);
      } else {
        for (const { reject } of batch) reject(error);
      }
    }
  }
}
