import type { ActiveRun } from "#runtime/active-run.ts";
import type { StoredWork } from "#runtime/run-environment.ts";
import type { Effect, EffectCompletion } from "#runtime/store/store.ts";

/** Performs one kind of effect. After a crash it is called again for the same key, with `effect.attempts` above 1. */
export interface EffectHandler {
  /**
   * Performs the effect and returns its result. Throws `Postponed` to be called again later, and the signal's reason when
   * it is aborted.
   */
  perform(effect: Effect, active: ActiveRun, signal: AbortSignal): Promise<EffectResult>;
  /** Returns the result to store when the last attempt has failed. */
  onFailure(effect: Effect, active: ActiveRun, error: unknown): Promise<EffectResult>;
  /** The number of attempts when something outside this process fails. */
  maxAttempts: number;
}

/** Everything an effect asks to be stored, and the callbacks of its workspace changes. */
export type EffectResult = Omit<EffectCompletion, "key"> & StoredWork;

/** Thrown by a handler that has done nothing yet and wants to be called again at that time. */
export class Postponed extends Error {
  /** Milliseconds since 1970. */
  readonly until: number;

  constructor(until: number) {
    super("Postponed");
    this.until = until;
  }
}
