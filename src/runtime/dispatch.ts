/** What carries runs out, as a dispatch sees it. */
export interface DispatchTarget {
  /** Drives a run until nothing is left for it to do; resolves then. */
  process(runId: string): Promise<void>;
  /** There is news for a run: true when it is open here and hears of it. */
  notify(runId: string): boolean;
  /** The run is somebody else's now: what is under way is aborted, and nothing more of it is written. */
  revokeLease(runId: string): void;
  /** Looks for runs that lost their wake-up, and for timers that nobody watches any more. */
  sweep(): Promise<void>;
}

/**
 * Stands between "this run has something to do" and the drive that does it, and sees to it that one process at a time
 * drives a run, its effects included. A process alone drives everything itself; processes that share a database divide
 * the runs among them, and take over from one that died. A wake-up may come too often and may, with a crash, be lost: the
 * sweep finds what it was for.
 */
export interface Dispatch {
  /** From here on runs are given to this driver. */
  attach(driver: DispatchTarget): Promise<void>;
  /** A run that is not open here may have something to do: whoever has it, or is to have it, hears of it. Returns at once. */
  wake(runId: string): void;
  /** Gives out no more runs, lets `finish` end what is open here, and leaves the rest to others. */
  detach(finish: () => Promise<void>): Promise<void>;
}
