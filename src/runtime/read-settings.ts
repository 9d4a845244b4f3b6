import type { GitHub } from "#github.ts";
import { parseRepositorySettings, type RepositorySettings, settingsPath } from "#repository-settings.ts";

/** What the repository's default branch says at this moment. Throws a UserError for a file that cannot be used. */
export async function readSettings(github: GitHub): Promise<RepositorySettings> {
  return parseRepositorySettings(await github.readFile(settingsPath));
}
