/** Interrupts work in progress. Reset it to use it for the next run. */
export interface InterruptSignal {
  readonly interrupted: boolean;
  /** The state as an AbortSignal. There is a new one after each reset. */
  readonly signal: AbortSignal;
  /** A second interrupt has no effect. */
  interrupt(reason?: string): void;
  reset(): void;
}

export class InterruptError extends Error {
  override readonly name = "InterruptError";

  constructor(message = "Execution interrupted") {
    super(message);
  }
}

export function isInterruptError(error: unknown): error is InterruptError {
  return error instanceof InterruptError;
}

export function createInterruptSignal(): InterruptSignal {
  let controller = new AbortController();

  return {
    get interrupted() {
      return controller.signal.aborted;
    },
    get signal() {
      return controller.signal;
    },
    interrupt(reason) {
      controller.abort(new InterruptError(reason));
    },
    reset() {
      if (controller.signal.aborted) controller = new AbortController();
    },
  };
}
