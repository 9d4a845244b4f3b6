import { parseRepositorySettings, type RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import type { RepositoryAccess } from "./run-environment.ts";

/** Reads the repository's current settings from its default branch. Throws a UserError when they are invalid. */
export async function readSettings(repository: Pick<RepositoryAccess, "readFile">): Promise<RepositorySettings> {
  return parseRepositorySettings(await repository.readFile(settingsPath));
}
