import { createExecutors, type Executors } from "./create-executors.ts";

let shared: Executors | undefined;

/** The executors of a process that configures none: made at first use. */
export function defaultExecutors(): Executors {
  shared ??= createExecutors();
  return shared;
}

/** Ends every session of the default executors; for the end of the process. */
export async function closeDefaultExecutors(): Promise<void> {
  await shared?.close();
  shared = undefined;
}
