import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect: unknown = runInNewContext("gc");

/** Collects garbage now, so that what memory is left is in use. */
export function collectGarbage(): void {
  if (typeof collect === "function") collect();
}
