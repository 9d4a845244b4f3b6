/**
 * Orders the operations of one process, which run on several connections: an operation waits for the writes before it that
 * touch the same names. Reads never make another operation wait.
 */
export class OperationOrder {
  /** The last write of each name. */
  readonly #last = new Map<string, Promise<void>>();
  readonly #writes = new Set<Promise<void>>();
  readonly #pending = new Set<Promise<void>>();
  /** The last write that may touch anything. */
  #fence: Promise<void> | undefined;

  /** `touched` are the names the work writes; undefined means that it may write anything. */
  write<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>): Promise<Result> {
    const { result, ended } = this.#start(touched, work);
    this.#writes.add(ended);
    if (touched) for (const name of touched) this.#last.set(name, ended);
    else this.#fence = ended;
    void ended.then(() => {
      this.#writes.delete(ended);
      if (this.#fence === ended) this.#fence = undefined;
      for (const name of touched ?? []) if (this.#last.get(name) === ended) this.#last.delete(name);
    });
    return result;
  }

  read<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>): Promise<Result> {
    return this.#start(touched, work).result;
  }

  /** Resolves when every operation so far has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#pending);
  }

  #start<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>) {
    const before = touched ? [this.#fence, ...touched.map((name) => this.#last.get(name))] : [...this.#writes];
    const result = Promise.all(before).then(work);
    const ended = result.then(
      () => undefined,
      () => undefined,
    );
    this.#pending.add(ended);
    void ended.then(() => this.#pending.delete(ended));
    return { result, ended };
  }
}
