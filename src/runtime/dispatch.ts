/** Performs runs in this process for a dispatch. */
export interface DispatchTarget {
  /** Performs a run, and resolves when it has nothing left to do. */
  process(runId: string): Promise<void>;
  /** Tells an active run that it has new events. Returns false when the run is not active in this process. */
  notify(runId: string): boolean;
  /** Called when another process performs the run from now on: aborts its effects and writes nothing more for it. */
  revokeLease(runId: string): void;
  /**
   * Shows in the status of a run that it is waiting for others, and performs nothing else of it. This process has the
   * run's lease meanwhile; `confirmLease` rejects when it has lost it.
   */
  showWaiting?(runId: string, reason: string, confirmLease: () => Promise<void>): Promise<void>;
  /** Fires timers that are due and wakes runs whose wake-up was lost. */
  sweep(): Promise<void>;
}

/**
 * Decides which process performs a run and its effects: only one process at a time. Processes that share a database
 * divide the runs among them, and take over the runs of a process that died. Wake-ups may be repeated, and a crash may
 * lose one; the sweep finds the run later.
 */
export interface Dispatch {
  /** Starts to give runs to this target. */
  attach(target: DispatchTarget): Promise<void>;
  /** Wakes a run that is not active in this process, wherever it is performed. Returns immediately. */
  wake(runId: string): void;
  /**
   * Rejects with a LeaseLostError if another process performs the run now. Asks the database if the last confirmation
   * is too old. Undefined if there are no other processes.
   */
  confirmLease?(runId: string): Promise<void>;
  /** The name of this process among those that share the database, such as `replica 7`. */
  readonly name?: string;
  /** Undefined while the process takes part in the dispatch; otherwise a sentence for operators. */
  problem?(): string | undefined;
  /** Stops giving out runs, waits for `finish`, and releases the remaining runs. */
  detach(finish: () => Promise<void>): Promise<void>;
}
