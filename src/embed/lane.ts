/** Does one thing at a time, in the order asked. */
export interface Lane {
  run<T>(work: () => Promise<T>): Promise<T>;
}

export function createLane(): Lane {
  let last: Promise<unknown> = Promise.resolve();
  return {
    run(work) {
      const next = last.then(work);
      last = next.catch(() => {});
      return next;
    },
  };
}
