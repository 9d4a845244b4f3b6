import { UserError } from "#domain/errors.ts";
import type { ReportedLocation } from "#domain/github.ts";
import { saveSchedules } from "./handle-schedule.ts";
import { type DeliveryContext, defineHandler } from "./handler.ts";
import { InstallationPayload, InstallationRepositoriesPayload, type ListedRepositories } from "./payloads.ts";

/** Stops the runs of an account from which the app was uninstalled, or where it was suspended. */
export const installationRevoked = defineHandler(InstallationPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ action, installation: { id: installationId, account } }, { runs, deliveryId }) => {
    const reason =
      action === "suspend"
        ? `The app was suspended by ${account.login}.`
        : `The app was uninstalled from ${account.login}.`;
    return runs().stopUnreachable({ installationId }, { reason, deliveryId });
  },
});

/** Shows pending requests again after the app was installed on an account, or is no longer suspended. */
export const installationRestored = defineHandler(InstallationPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: async ({ action, installation, repositories }, context) => {
    if (action === "unsuspend") await context.runs().refreshReachable({ installationId: installation.id }, []);
    else await reach(installation, repositories, context);
  },
});

export const repositoriesAdded = defineHandler(InstallationRepositoriesPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ installation, repositories_added }, context) => reach(installation, repositories_added, context),
});

export const repositoriesRemoved = defineHandler(InstallationRepositoriesPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ installation, repositories_removed }, { runs, deliveryId }) =>
    runs().stopUnreachable(
      { installationId: installation.id, repositoryIds: repositories_removed.map(({ id }) => id) },
      { reason: "The app was removed from this repository.", deliveryId },
    ),
});

/** Shows pending requests in repositories that the app can reach now, and stores their schedules. */
async function reach(
  installation: InstallationPayload["installation"],
  listed: ListedRepositories,
  context: DeliveryContext,
): Promise<void> {
  const [scope, locations] = reachOf(installation, listed);
  await context.runs().refreshReachable(scope, locations);
  for (const { repositoryId, owner, repo } of locations.filter(context.serves)) {
    try {
      await saveSchedules({ installationId: installation.id, repositoryId, owner, repo }, context);
    } catch (error) {
      // Its settings are not valid, or it no longer exists. A push that corrects them stores its schedules.
      if (!(error instanceof UserError)) throw error;
      context.log.info(`The schedules of ${owner}/${repo} cannot be read: ${error.message}`);
    }
  }
}

/** Returns the repositories of an installation with their locations. */
function reachOf({ id: installationId, account }: InstallationPayload["installation"], listed: ListedRepositories) {
  const locations = listed.map(
    ({ id, name }): ReportedLocation => ({
      repositoryId: id,
      installationId,
      ownerId: account.id,
      owner: account.login,
      repo: name,
      at: Date.now(),
    }),
  );
  return [{ installationId, repositoryIds: listed.map(({ id }) => id) }, locations] as const;
}
