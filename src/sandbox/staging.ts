import type { Overlay } from "./overlay.ts";

/** The paths selected for the next push. */
export interface Staging {
  paths(): string[];
  /** Returns the paths that were not staged before. */
  add(paths: readonly string[]): string[];
  /** Returns the paths that were staged before. */
  remove(paths: readonly string[]): string[];
}

// Stored with the run's changes, under a path that no tool accepts.
const stagingFile = ".git/golem-staged";

export function isStagingFile(path: string): boolean {
  return path === stagingFile;
}

export function createStaging(overlay: Overlay): Staging {
  const paths = (): string[] => {
    const content = overlay.layers.run.read(stagingFile);
    return content ? JSON.parse(content.toString("utf8")) : [];
  };
  function keep(next: readonly string[]): void {
    if (next.length === 0) overlay.remove("run", stagingFile);
    else overlay.write("run", stagingFile, Buffer.from(JSON.stringify([...next].sort())));
  }
  return {
    paths,
    add: (added) => {
      const known = new Set(paths());
      const fresh = added.filter((path) => !known.has(path));
      if (fresh.length > 0) keep([...known, ...fresh]);
      return fresh;
    },
    remove: (removed) => {
      const known = paths();
      const kept = known.filter((path) => !removed.includes(path));
      if (kept.length < known.length) keep(kept);
      return known.filter((path) => removed.includes(path));
    },
  };
}
