/** Runs tasks one at a time, in the order they were added. A task that fails does not stop the next one. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  /** Starts the task when every task added before it has ended, and settles as the task does. */
  run<Result>(task: () => Result | Promise<Result>): Promise<Result> {
    const result = this.#last.then(task);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Resolves when every task added so far has ended. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
