import { RunSpec } from "#domain/run.ts";
import { parseStored, readJson } from "./parse-stored.ts";
import type { RunRow, RunStatus } from "./store.ts";

/** A run as either database gives it. */
export interface StoredRun {
  id: string;
  status: string;
  snapshot: string | null;
  version: number;
  change_sets: number;
  updated_at: number;
  /** The spec as it was written when the run was made. */
  spec: string;
  /** Where the repository is today; null where only the run's own words say so. */
  repository_id: number | null;
  installation_id: number | null;
  owner: string | null;
  repo: string | null;
}

/** Reads a stored run. `specTable` is named when the spec cannot be read. */
export function readRun(row: StoredRun, specTable: string): RunRow {
  return {
    spec: placed(parseStored(RunSpec, row.spec, { table: specTable, id: row.id }), row),
    status: row.status as RunStatus,
    snapshot: readJson(row.snapshot, { table: "runs", id: row.id }),
    version: row.version,
    changeSets: row.change_sets,
    updatedAt: row.updated_at,
  };
}

/** The spec with its repository as it is called and reached today. */
function placed(spec: RunSpec, { repository_id, installation_id, owner, repo }: StoredRun): RunSpec {
  if (repository_id === null || installation_id === null || owner === null || repo === null) return spec;
  return {
    ...spec,
    origin: { ...spec.origin, repositoryId: repository_id, installationId: installation_id, owner, repo },
  };
}
