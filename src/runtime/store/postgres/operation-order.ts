/**
 * Calls of one process that touch the same thing happen in the order they were asked, though each has a connection of its
 * own; others pass each other. Reads wait for the writes before them and hold up nobody.
 */
export interface OperationOrder {
  /** `touched` names what it writes; undefined: it may be anything. */
  write<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>): Promise<Result>;
  read<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>): Promise<Result>;
  /** Resolves when everything asked so far is over. */
  settled(): Promise<void>;
}

export function operationOrder(): OperationOrder {
  const last = new Map<string, Promise<void>>();
  const pending = new Set<Promise<void>>();
  const writing = new Set<Promise<void>>();
  let fence: Promise<void> | undefined;

  async function waitFor(touched: readonly string[] | undefined): Promise<void> {
    const before = touched ? [fence, ...touched.map((name) => last.get(name))] : [...writing];
    await Promise.all(before.filter((promise) => promise !== undefined));
  }

  function start<Result>(touched: readonly string[] | undefined, work: () => Promise<Result>) {
    const waiting = waitFor(touched);
    const result = waiting.then(work);
    const over = result.then(
      () => undefined,
      () => undefined,
    );
    pending.add(over);
    void over.then(() => pending.delete(over));
    return { result, over };
  }

  return {
    write: (touched, work) => {
      const { result, over } = start(touched, work);
      writing.add(over);
      void over.then(() => writing.delete(over));
      if (touched) {
        for (const name of touched) last.set(name, over);
        void over.then(() => {
          for (const name of touched) if (last.get(name) === over) last.delete(name);
        });
      } else {
        fence = over;
        void over.then(() => {
          if (fence === over) fence = undefined;
        });
      }
      return result;
    },
    read: (touched, work) => start(touched, work).result,
    settled: async () => {
      await Promise.all(pending);
    },
  };
}
