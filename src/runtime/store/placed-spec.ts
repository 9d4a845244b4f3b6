import type { RunSpec } from "#run.ts";

/** The columns that say where a run's repository is today; null where only the run's own words say so. */
export interface PlaceColumns {
  repository_id: number | null;
  installation_id: number | null;
  owner: string | null;
  repo: string | null;
}

/** The spec as it was stored, with its repository as it is called and reached today. */
export function placedSpec(spec: RunSpec, { repository_id, installation_id, owner, repo }: PlaceColumns): RunSpec {
  if (repository_id === null || installation_id === null || owner === null || repo === null) return spec;
  return {
    ...spec,
    origin: { ...spec.origin, repositoryId: repository_id, installationId: installation_id, owner, repo },
  };
}
