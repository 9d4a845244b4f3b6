/** Interrupts work in progress. Reset it to use it for the next run. */
export type InterruptSignal = ReturnType<typeof createInterruptSignal>;

export class InterruptError extends Error {
  override readonly name = "InterruptError";

  constructor(message = "Execution interrupted") {
    super(message);
  }
}

export function isInterruptError(error: unknown): error is InterruptError {
  return error instanceof InterruptError;
}

export function createInterruptSignal() {
  let controller = new AbortController();

  return {
    get interrupted(): boolean {
      return controller.signal.aborted;
    },
    /** The state as an AbortSignal. There is a new one after each reset. */
    get signal(): AbortSignal {
      return controller.signal;
    },
    /** A second interrupt has no effect. */
    interrupt(reason?: string): void {
      controller.abort(new InterruptError(reason));
    },
    reset(): void {
      if (controller.signal.aborted) controller = new AbortController();
    },
  };
}
