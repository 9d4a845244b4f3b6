import { ModelFailure } from "./models.ts";

/** How long a model may stay silent, in milliseconds. */
export interface CallTimeouts {
  /** Until the first sign of an answer: a local model reads a long prompt for minutes. */
  firstMs: number;
  /** Between two pieces of the answer. */
  idleMs: number;
  /** For the whole call. */
  totalMs: number;
}

export interface CallWatch {
  /** Aborted with the caller's reason, or with a ModelFailure when the time is up. */
  signal: AbortSignal;
  /** A piece of the answer arrived. */
  heard(): void;
  /** The call is over: nothing is aborted any more. */
  stop(): void;
}

/** Watches over one call: ends it when its caller does, or when the provider is silent or talks for too long. */
export function watchCall(caller: AbortSignal, { firstMs, idleMs, totalMs }: CallTimeouts, who: string): CallWatch {
  const controller = new AbortController();
  const giveUp = (sentence: string) => controller.abort(new ModelFailure(sentence, { retryable: true }));
  const onAbort = () => controller.abort(caller.reason);
  caller.addEventListener("abort", onAbort, { once: true });

  const total = setTimeout(() => giveUp(`${who} was still answering after ${inWords(totalMs)}.`), totalMs);
  let silence = setTimeout(() => giveUp(`${who} did not begin to answer within ${inWords(firstMs)}.`), firstMs);
  let isOver = false;
  return {
    signal: controller.signal,
    heard() {
      if (isOver) return;
      clearTimeout(silence);
      silence = setTimeout(() => giveUp(`${who} stopped in mid-answer for ${inWords(idleMs)}.`), idleMs);
    },
    stop() {
      isOver = true;
      clearTimeout(silence);
      clearTimeout(total);
      caller.removeEventListener("abort", onAbort);
    },
  };
}

function inWords(milliseconds: number): string {
  if (milliseconds < 60_000) return `${milliseconds / 1_000} seconds`;
  const minutes = Math.round(milliseconds / 60_000);
  return minutes === 1 ? "a minute" : `${minutes} minutes`;
}
