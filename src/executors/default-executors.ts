import { createExecutors, type Executors } from "./create-executors.ts";

let shared: Executors | undefined;

/** The executors of a program that lends its tools none: made at first use, and gone with the process. */
export function defaultExecutors(): Executors {
  shared ??= createExecutors();
  return shared;
}
