import type { InputPiece } from "#models/models.ts";

/** The output that a run is producing right now: the latest output of a tool or model. */
interface LiveText {
  /** A call's id, or `model/…` for one call of the model. */
  source: string;
  text: string;
  /** The tool call whose arguments the model is writing. */
  call: LiveCall | undefined;
  /** Grows with every piece, so that readers can tell whether the text has changed. */
  version: number;
}

interface LiveCall {
  callId: string;
  tool: string;
  /** The beginning of the arguments, as JSON. */
  start: string;
  /** The characters of the arguments so far. */
  length: number;
}

/** The output of running tools and model calls in this process. It is bounded and not stored; the log gets the whole result. */
export interface LiveOutput {
  /** Appends a piece of text or of a call's arguments. A new source replaces the output of the one before. */
  add(runId: string, piece: LivePiece): void;
  read(runId: string): LiveText | undefined;
  forget(runId: string): void;
}

type LivePiece = { source: string } & ({ text: string; input?: never } | { input: InputPiece; text?: never });

/** The maximum number of characters to keep per run. */
const maxLength = 16_000;
/** The maximum number of characters to keep of a call's arguments. */
const maxStartLength = 500;

export function createLiveOutput(): LiveOutput {
  const outputs = new Map<string, LiveText>();
  let version = 0;
  return {
    add: (runId, { source, text = "", input }) => {
      const known = outputs.get(runId);
      const previous = known?.source === source ? known : undefined;
      version += 1;
      outputs.set(runId, {
        source,
        text: `${previous?.text ?? ""}${text.slice(-maxLength)}`.slice(-maxLength),
        call: input ? extendCall(previous?.call, input) : undefined,
        version,
      });
    },
    read: (runId) => outputs.get(runId),
    forget: (runId) => void outputs.delete(runId),
  };
}

function extendCall(call: LiveCall | undefined, { callId, tool, delta }: InputPiece): LiveCall {
  const { start, length } = call?.callId === callId ? call : { start: "", length: 0 };
  return { callId, tool, start: (start + delta).slice(0, maxStartLength), length: length + delta.length };
}
