import { z } from "zod";
import type { ReportedLocation } from "#domain/repository-location.ts";

const At = z.coerce.date().optional().catch(undefined);

/** A repository as deliveries show it; the numbers are missing in none of GitHub's own. */
export const WebhookRepository = z.object({
  id: z.number().optional(),
  name: z.string(),
  owner: z.object({ id: z.number().optional(), login: z.string() }),
  created_at: At,
  updated_at: At,
});
type WebhookRepository = z.infer<typeof WebhookRepository>;

/** Where a delivery says a repository is; undefined when it does not number it. `at`: when it was so. */
export function readLocation(
  { id, name, owner, created_at }: WebhookRepository,
  installationId: number,
  at: Date | undefined,
): ReportedLocation | undefined {
  if (id === undefined || owner.id === undefined) return undefined;
  const there = { repositoryId: id, installationId, ownerId: owner.id, owner: owner.login, repo: name };
  return { ...there, at: at?.getTime() ?? Date.now(), createdAt: created_at?.getTime() };
}
