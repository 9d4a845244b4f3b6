import { parseRepositorySettings, type RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import type { GitHub } from "#domain/github.ts";

/** What the repository's default branch says at this moment. Throws a UserError for a file that cannot be used. */
export async function readSettings(github: GitHub): Promise<RepositorySettings> {
  return parseRepositorySettings(await github.readFile(settingsPath));
}
