import { parseRepositorySettings, type RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import type { RepositoryAccess } from "./run-environment.ts";

/**
 * Reads the repository's settings from its default branch: the current ones, or those of at most `maxAgeMs` ago. Throws a
 * UserError when they are invalid.
 */
export async function readSettings(
  repository: Pick<RepositoryAccess, "readFile">,
  options: { maxAgeMs?: number } = {},
): Promise<RepositorySettings> {
  return parseRepositorySettings(await repository.readFile(settingsPath, options));
}
