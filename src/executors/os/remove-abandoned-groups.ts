import { existsSync, readdirSync, rmdirSync } from "node:fs";
import { groupFamilies } from "./control-group.ts";

/** Removes the empty control groups of programs that were killed before they could. */
export function removeAbandonedGroups(): void {
  for (const family of groupFamilies()) {
    for (const name of namesIn(family)) {
      const pid = /^(\d+)-/.exec(name)?.[1];
      if (!pid || existsSync(`/proc/${pid}`)) continue;
      try {
        rmdirSync(`${family}/${name}`);
      } catch {
        // Something lives in it, or it is not ours to remove.
      }
    }
  }
}

function namesIn(family: string): string[] {
  try {
    return readdirSync(family);
  } catch {
    return [];
  }
}
