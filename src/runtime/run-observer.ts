import type { RunSpec } from "#domain/run.ts";
import type { ModelRequest } from "#models/models.ts";
import type { Effect, EffectCompletion } from "#runtime/store/store.ts";

/** Follows runs in this process step by step: for a terminal or an embedding program. Its methods must not throw. */
export interface RunObserver {
  effectStarted(effect: Effect, spec: RunSpec): void;
  /** The result of the effect has been stored; the run has not reacted to it yet. */
  effectCompleted(effect: Effect, result: Omit<EffectCompletion, "key">): void;
  modelCalled(spec: RunSpec, request: Pick<ModelRequest, "instructions" | "messages" | "tools">): void;
}
