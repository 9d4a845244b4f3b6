import type { Dispatch, Driver } from "./dispatch.ts";

/** The dispatch of a process that has the database to itself: every run is driven here. */
export function dispatchHere(): Dispatch {
  let driver: Driver | undefined;
  return {
    start: async (given) => {
      driver = given;
    },
    wake: (runId) => void driver?.open(runId),
    stop: (finish) => finish(),
  };
}
