import type { ReportedLocation, RepositoryLocation } from "#domain/repository-location.ts";

/** A name, and since when it belonged to one repository alone; milliseconds since 1970. */
interface HeldName {
  owner: string;
  repo: string;
  since: number;
}

export interface ResolvedLocation {
  location: RepositoryLocation;
  /** Runs made under this name since then, and stored without a number, are of this repository. */
  name: HeldName;
  /** It belongs to another account than before. */
  ownerChanged: boolean;
}

/**
 * What is known of a repository's place after a delivery; undefined when the delivery is older than that. Whoever takes a
 * name that became free holds it from then on, and none of what was made under it before.
 */
export function resolveLocation(
  before: RepositoryLocation | undefined,
  heard: ReportedLocation,
): ResolvedLocation | undefined {
  const { at, createdAt = at, previousName, ...there } = heard;
  if (!before) {
    const { owner, repo } = previousName ?? there;
    return {
      location: { ...there, since: previousName ? at : createdAt },
      name: { owner, repo, since: createdAt },
      ownerChanged: false,
    };
  }
  if (isSame(before, there)) return { location: before, name: before, ownerChanged: false };
  if (at < before.since) return undefined;
  return { location: { ...there, since: at }, name: before, ownerChanged: before.ownerId !== there.ownerId };
}

function isSame(before: RepositoryLocation, there: Omit<RepositoryLocation, "since">): boolean {
  return (["installationId", "ownerId", "owner", "repo"] as const).every((part) => before[part] === there[part]);
}
