import type { ReportedLocation } from "#domain/repository-location.ts";
import { defineHandler } from "./handler.ts";
import { InstallationPayload, InstallationRepositoriesPayload, type ListedRepositories } from "./payloads.ts";

/** The app was uninstalled from an account, or suspended: its runs there stop. */
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

/** The app was installed on an account, or is no longer suspended: what waits there is shown again. */
export const installationRestored = defineHandler(InstallationPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ action, installation, repositories }, { runs }) =>
    action === "unsuspend"
      ? runs().refreshReachable({ installationId: installation.id }, [])
      : runs().refreshReachable(...reachOf(installation, repositories)),
});

export const repositoriesAdded = defineHandler(InstallationRepositoriesPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ installation, repositories_added }, { runs }) =>
    runs().refreshReachable(...reachOf(installation, repositories_added)),
});

export const repositoriesRemoved = defineHandler(InstallationRepositoriesPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ installation, repositories_removed }, { runs, deliveryId }) =>
    runs().stopUnreachable(
      { installationId: installation.id, repositoryIds: repositories_removed.map(({ id }) => id) },
      { reason: "The app was removed from this repository.", deliveryId },
    ),
});

/** The repositories of an installation, and where they are. */
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
