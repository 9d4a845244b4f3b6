import { defineHandler } from "./handler.ts";
import { locationOf, RepositoryPayload } from "./payloads.ts";

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
    const reach = { installationId: installation.id, repositoryIds: [location.repositoryId] };
    await runs().stopUnreachable(reach, { reason, deliveryId });
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
