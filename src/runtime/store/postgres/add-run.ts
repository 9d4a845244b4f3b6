import type { NewRun } from "#runtime/store/store.ts";
import { addEffects } from "./add-effects.ts";
import type { Sql } from "./postgres-connection.ts";

/** Makes the run with its first effects. One that exists stays as it is. */
export async function addRun(sql: Sql, { spec, snapshot, effects }: NewRun): Promise<void> {
  const { repositoryId, owner, repo, thread, requestedBy } = spec.origin;
  const made = await sql.query(
    `insert into runs (id, root_id, parent_id, owner, repo, thread, requested_by, created_at, updated_at, status, snapshot, spec, repository_id)
      values ($1, $2, $3, lower($4), lower($5), $6, lower($7), $8, $8, 'active', $9, $10, $11)
      on conflict (id) do nothing returning id`,
    [
      spec.id,
      spec.rootId,
      spec.parentId ?? null,
      owner,
      repo,
      thread,
      requestedBy,
      spec.createdAt,
      JSON.stringify(snapshot) ?? null,
      JSON.stringify(spec),
      repositoryId ?? null,
    ],
  );
  if (made.length > 0) await addEffects(sql, effects);
}
