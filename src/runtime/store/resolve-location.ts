import type { ReportedLocation, RepositoryLocation } from "#domain/github.ts";

/** A repository name, and the time since which it belongs to this repository; milliseconds since 1970. */
interface OwnName {
  owner: string;
  repo: string;
  since: number;
}

export interface ResolvedLocation {
  location: RepositoryLocation;
  /** Runs stored under this name since then, without a repository id, belong to the repository. */
  name: OwnName;
  /** True if the repository belongs to a different account than before. */
  ownerChanged: boolean;
}

/**
 * Returns the location of a repository after a report, or undefined if the report is older than the known location. A
 * repository that takes an unused name owns it from then on; runs stored under the name earlier belong to another one.
 */
export function resolveLocation(
  known: RepositoryLocation | undefined,
  reported: ReportedLocation,
): ResolvedLocation | undefined {
  const { at, createdAt = at, previousName, ...current } = reported;
  if (!known) {
    const { owner, repo } = previousName ?? current;
    return {
      location: { ...current, since: previousName ? at : createdAt },
      name: { owner, repo, since: createdAt },
      ownerChanged: false,
    };
  }
  if (isSame(known, current)) return { location: known, name: known, ownerChanged: false };
  if (at < known.since) return undefined;
  return { location: { ...current, since: at }, name: known, ownerChanged: known.ownerId !== current.ownerId };
}

function isSame(known: RepositoryLocation, current: Omit<RepositoryLocation, "since">): boolean {
  return (["installationId", "ownerId", "owner", "repo"] as const).every((part) => known[part] === current[part]);
}
