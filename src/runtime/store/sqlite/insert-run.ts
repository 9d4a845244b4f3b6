import type { NewRun } from "#runtime/store/store.ts";
import type { SqliteTables } from "./sqlite-tables.ts";

/** Makes the run with its first effects. One that exists stays as it is. */
export function insertRun({ runs, effects }: SqliteTables, run: NewRun): void {
  if (!runs.insert(run)) return;

  for (const effect of run.effects) effects.insert(effect);
}
