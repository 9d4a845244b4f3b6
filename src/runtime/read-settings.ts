import { parseRepositorySettings, type RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import type { RepositoryAccess } from "./run-environment.ts";

/** What the repository's default branch says at this moment. Throws a UserError for a file that cannot be used. */
export async function readSettings(repository: Pick<RepositoryAccess, "readFile">): Promise<RepositorySettings> {
  return parseRepositorySettings(await repository.readFile(settingsPath));
}
