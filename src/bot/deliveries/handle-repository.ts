import { UserError } from "#domain/errors.ts";
import type { ReportedLocation } from "#domain/github.ts";
import { saveMergeCheck } from "./handle-merge-check.ts";
import { mayChangeTriggers, updateTriggers } from "./handle-triggers.ts";
import { type DeliveryContext, defineHandler, ignoreThread, repositoryOf, repositoryQueue } from "./handler.ts";
import {
  InstallationPayload,
  InstallationRepositoriesPayload,
  type ListedRepositories,
  locationOf,
  PushPayload,
  RepositoryPayload,
} from "./payloads.ts";

/** Updates the location of a repository that was renamed or transferred. Its runs stop if this deployment does not serve the new name. */
export const repositoryMoved = defineHandler(RepositoryPayload, {
  queue: ({ installation, repository: { id } }) => `${installation.id} ${id}`,
  handle: async ({ installation, repository, changes }, { runs, serves, deliveryId }) => {
    const location = locationOf(repository, installation.id, repository.updated_at);
    if (!location) return;

    const { owner, repo } = location;
    const { user, organization } = changes?.owner?.from ?? {};
    const previous = { owner: (user ?? organization)?.login, repo: changes?.repository?.name.from };
    const isNamed = previous.owner !== undefined || previous.repo !== undefined;
    const previousName = isNamed ? { owner: previous.owner ?? owner, repo: previous.repo ?? repo } : undefined;
    await runs().reportLocation({ ...location, previousName });
    if (serves(location)) return;

    const reason = `The repository is now called ${owner}/${repo}, which is not on the list of repositories that this app serves.`;
    const scope = { installationId: installation.id, repositoryIds: [location.repositoryId] };
    await runs().stopUnreachable(scope, { reason, deliveryId });
  },
});

export const repositoryDeleted = defineHandler(RepositoryPayload, {
  queue: ({ installation, repository: { id } }) => `${installation.id} ${id}`,
  handle: async ({ installation, repository: { id, name, owner } }, { runs, deliveryId }) => {
    if (id === undefined) return;
    const reason = `The repository ${owner.login}/${name} was deleted.`;
    await runs().stopUnreachable({ installationId: installation.id, repositoryIds: [id] }, { reason, deliveryId });
  },
});

/** Stops the runs of an account from which the app was uninstalled, or where it was suspended. */
export const installationRevoked = defineHandler(InstallationPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ action, installation: { id: installationId, account } }, { runs, deliveryId }) => {
    const reason =
      action === "suspend"
        ? `This app was suspended by ${account.login}.`
        : `This app was uninstalled from ${account.login}.`;
    return runs().stopUnreachable({ installationId }, { reason, deliveryId });
  },
});

/** Shows pending requests again after the app was installed on an account, or is no longer suspended. */
export const installationRestored = defineHandler(InstallationPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: async ({ action, installation, repositories }, context) => {
    if (action !== "unsuspend") return refreshRepositories(installation, repositories, context);
    // All of its repositories were out of reach, even those that GitHub does not list here.
    await context.runs().refreshReachable({ installationId: installation.id }, []);
    await refreshTriggers(scopeAndLocations(installation, repositories)[1], context);
  },
});

export const repositoriesAdded = defineHandler(InstallationRepositoriesPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ installation, repositories_added }, context) =>
    refreshRepositories(installation, repositories_added, context),
});

export const repositoriesRemoved = defineHandler(InstallationRepositoriesPayload, {
  queue: ({ installation }) => `${installation.id}`,
  handle: ({ installation, repositories_removed }, { runs, deliveryId }) =>
    runs().stopUnreachable(
      { installationId: installation.id, repositoryIds: repositories_removed.map(({ id }) => id) },
      { reason: "This app was removed from this repository.", deliveryId },
    ),
});

/** Shows pending requests in repositories that the app can reach now, and reads their triggers again. */
async function refreshRepositories(
  installation: InstallationPayload["installation"],
  listed: ListedRepositories,
  context: DeliveryContext,
): Promise<void> {
  const [scope, locations] = scopeAndLocations(installation, listed);
  await context.runs().refreshReachable(scope, locations);
  await refreshTriggers(locations, context);
}

/** Reads the triggers of repositories again, since the app received no push while it could not reach them. */
async function refreshTriggers(locations: readonly ReportedLocation[], context: DeliveryContext): Promise<void> {
  for (const { installationId, repositoryId, owner, repo } of locations.filter(context.serves)) {
    try {
      await updateTriggers({ installationId, repositoryId, owner, repo }, context, { isChanged: true });
    } catch (error) {
      // It no longer exists.
      if (!(error instanceof UserError)) throw error;
      context.log.info(`The schedules of ${owner}/${repo} cannot be read: ${error.message}`);
    }
  }
}

function scopeAndLocations(
  { id: installationId, account }: InstallationPayload["installation"],
  listed: ListedRepositories,
) {
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

const branchPrefix = "refs/heads/";

/** Checks runs' pull requests for conflicts after a push to their base, and reads triggers that it changed. */
export const branchPushed = defineHandler(PushPayload, {
  queue: (payload) => `${repositoryQueue(payload)} push`,
  ignore: (payload, scope) => {
    if (payload.deleted || !payload.ref.startsWith(branchPrefix)) return "it does not move a branch";
    return ignoreThread(payload, undefined, scope);
  },
  handle: async (payload, context) => {
    const base = payload.ref.slice(branchPrefix.length);
    const repository = repositoryOf(payload);
    if (mayChangeTriggers(payload)) await updateTriggers(repository, context, { isChanged: true });
    const own = await context.runs().listOpenPullRequests(repository);
    if (own.length === 0) return;
    // A person may have retargeted a pull request, so GitHub is asked for those that are based on the branch now.
    const based = await context.openGitHub(repository).listPullRequestsInto(base);
    for (const number of own.filter((one) => based.includes(one))) {
      await saveMergeCheck({ repository, number, baseCommit: payload.after }, `base ${payload.after}`, context);
    }
  },
});
