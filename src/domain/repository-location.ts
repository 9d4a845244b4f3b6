/** Where a repository is today. Its number stays; its name, its owner and the installation that reaches it may change. */
export interface RepositoryLocation {
  /** GitHub's number of the repository. */
  repositoryId: number;
  installationId: number;
  /** GitHub's number of the account that owns it: the same after the account was renamed. */
  ownerId: number;
  owner: string;
  repo: string;
  /** Since when it is there; milliseconds since 1970. */
  since: number;
}

/** What a delivery says of where a repository is. */
export interface ReportedLocation extends Omit<RepositoryLocation, "since"> {
  /** When that was true; milliseconds since 1970. Deliveries may come late. */
  at: number;
  /** When the repository was made, if the delivery says so; milliseconds since 1970. */
  createdAt?: number | undefined;
  /** What it was called until then, where that is what the delivery tells. */
  previousName?: { owner: string; repo: string } | undefined;
}
