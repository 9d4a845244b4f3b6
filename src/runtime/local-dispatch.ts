import type { Dispatch, DispatchTarget } from "./dispatch.ts";

/** The dispatch of a process that has the database to itself: every run is driven here. */
export function localDispatch(): Dispatch {
  let driver: DispatchTarget | undefined;
  return {
    attach: async (given) => {
      driver = given;
    },
    wake: (runId) => void driver?.process(runId),
    detach: (finish) => finish(),
  };
}
