import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect: unknown = runInNewContext("gc");

/** Collects garbage immediately, so that only memory in use is measured. */
export function collectGarbage(): void {
  if (typeof collect === "function") collect();
}
