/** Performs runs in this process for a dispatch. */
export interface DispatchTarget {
  /** Performs a run until it has nothing left to do; resolves then. */
  process(runId: string): Promise<void>;
  /** Tells an active run that it has new events. Returns false when the run is not active in this process. */
  notify(runId: string): boolean;
  /** Another process performs the run from now on: aborts its effects and writes nothing more for it. */
  revokeLease(runId: string): void;
  /**
   * Says in the status of a run that it waits for others, and performs nothing else of it. The run is lent to this process
   * meanwhile; `confirmLease` rejects once it is not.
   */
  showWaiting?(runId: string, reason: string, confirmLease: () => Promise<void>): Promise<void>;
  /** Fires timers that are due and wakes runs whose wake-up was lost. */
  sweep(): Promise<void>;
}

/**
 * Decides which process performs a run that has something to do, so that one process at a time performs a run, its effects
 * included. Processes that share a database divide the runs among them, and take over the runs of a process that died.
 * Wake-ups may be repeated, and a crash may lose one; the sweep finds the run later.
 */
export interface Dispatch {
  /** Begins to give runs to this target. */
  attach(target: DispatchTarget): Promise<void>;
  /** Wakes a run that is not active in this process, wherever it is performed. Returns at once. */
  wake(runId: string): void;
  /**
   * Rejects with a LeaseLostError when another process performs the run by now. Asks the database when it was not asked for
   * a while. Undefined where no other process can.
   */
  confirmLease?(runId: string): Promise<void>;
  /** The name of this process among those that share the database, such as `replica 7`. */
  readonly name?: string;
  /** Undefined while the process takes part in the dispatch; otherwise a sentence for operators. */
  problem?(): string | undefined;
  /** Gives out no more runs, waits for `finish`, and releases the runs that are left. */
  detach(finish: () => Promise<void>): Promise<void>;
}

/** The dispatch of a process that does not share its database: it performs every run. */
export function localDispatch(): Dispatch {
  let target: DispatchTarget | undefined;
  return {
    attach: async (given) => {
      target = given;
    },
    wake: (runId) => void target?.process(runId),
    detach: (finish) => finish(),
  };
}
