/** What somebody who watches a run can be shown of a moment: the end of what is being said or printed right now. */
interface Moment {
  /** A call's id, or one call of the model, `model/…`. */
  source: string;
  text: string;
  /** Grows with every piece, so that a change is seen by a number. */
  version: number;
}

/**
 * What tools print and the model writes while they are at it, for whoever watches from this process. In memory, bounded,
 * and gone with the process: the log has all of it in the end.
 */
export interface LiveOutput {
  /** A new source takes the place of what the run said before. */
  add(runId: string, piece: { source: string; text: string }): void;
  read(runId: string): Moment | undefined;
  forget(runId: string): void;
}

/** Characters kept of a run. */
const longestMoment = 16_000;

export function createLiveOutput(): LiveOutput {
  const moments = new Map<string, Moment>();
  let version = 0;
  return {
    add: (runId, { source, text }) => {
      const before = moments.get(runId);
      const whole = `${before?.source === source ? before.text : ""}${text.slice(-longestMoment)}`;
      version += 1;
      moments.set(runId, { source, text: whole.slice(-longestMoment), version });
    },
    read: (runId) => moments.get(runId),
    forget: (runId) => void moments.delete(runId),
  };
}
