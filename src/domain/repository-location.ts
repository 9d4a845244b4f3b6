/** The current location of a repository. Its id is permanent; name, owner and installation may change. */
export interface RepositoryLocation {
  /** GitHub's id of the repository. */
  repositoryId: number;
  installationId: number;
  /** GitHub's id of the owner's account, which stays the same when the account is renamed. */
  ownerId: number;
  owner: string;
  repo: string;
  /** The time at which the repository moved there; milliseconds since 1970. */
  since: number;
}

/** The location of a repository according to a webhook delivery. */
export interface ReportedLocation extends Omit<RepositoryLocation, "since"> {
  /** The time of the report, in milliseconds since 1970. Deliveries may arrive late. */
  at: number;
  /** When the repository was created, in milliseconds since 1970, if the delivery contains it. */
  createdAt?: number | undefined;
  /** The name before a rename or transfer, if the delivery reports one. */
  previousName?: { owner: string; repo: string } | undefined;
}
