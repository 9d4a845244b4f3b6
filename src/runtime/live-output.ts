/** The output a run is producing at this moment: the end of what a tool prints or the model writes. */
interface LiveText {
  /** A call's id, or `model/…` for one call of the model. */
  source: string;
  text: string;
  /** Grows with every piece, so that readers can tell whether the text has changed. */
  version: number;
}

/** The output of running tools and model calls in this process. It is bounded and not stored; the log gets the whole result. */
export interface LiveOutput {
  /** Appends a piece. A new source replaces the text of the one before. */
  add(runId: string, piece: { source: string; text: string }): void;
  read(runId: string): LiveText | undefined;
  forget(runId: string): void;
}

/** The characters that are kept of a run. */
const maxLength = 16_000;

export function createLiveOutput(): LiveOutput {
  const texts = new Map<string, LiveText>();
  let version = 0;
  return {
    add: (runId, { source, text }) => {
      const previous = texts.get(runId);
      const whole = `${previous?.source === source ? previous.text : ""}${text.slice(-maxLength)}`;
      version += 1;
      texts.set(runId, { source, text: whole.slice(-maxLength), version });
    },
    read: (runId) => texts.get(runId),
    forget: (runId) => void texts.delete(runId),
  };
}
