import type { HeardPlace, RepositoryPlace } from "#domain/repository-place.ts";

/** A name, and since when it belonged to one repository alone; milliseconds since 1970. */
interface HeldName {
  owner: string;
  repo: string;
  since: number;
}

export interface SettledPlace {
  place: RepositoryPlace;
  /** Runs made under this name since then, and stored without a number, are of this repository. */
  held: HeldName;
  /** It belongs to another account than before. */
  isOthers: boolean;
}

/**
 * What is known of a repository's place after a delivery; undefined when the delivery is older than that. Whoever takes a
 * name that became free holds it from then on, and none of what was made under it before.
 */
export function settlePlace(before: RepositoryPlace | undefined, heard: HeardPlace): SettledPlace | undefined {
  const { at, createdAt = at, formerly, ...there } = heard;
  if (!before) {
    const { owner, repo } = formerly ?? there;
    return {
      place: { ...there, since: formerly ? at : createdAt },
      held: { owner, repo, since: createdAt },
      isOthers: false,
    };
  }
  if (isSame(before, there)) return { place: before, held: before, isOthers: false };
  if (at < before.since) return undefined;
  return { place: { ...there, since: at }, held: before, isOthers: before.ownerId !== there.ownerId };
}

function isSame(before: RepositoryPlace, there: Omit<RepositoryPlace, "since">): boolean {
  return (["installationId", "ownerId", "owner", "repo"] as const).every((part) => before[part] === there[part]);
}
