import { z } from "zod";
import type { ReportedLocation } from "#domain/repository-location.ts";
import type { InstallationScope } from "#runtime/runs.ts";
import type { Delivery } from "./read-comment.ts";
import { readLocation, WebhookRepository } from "./webhook-repository.ts";

/** What became of a repository, or of what the app reaches. */
export type AccessEvent =
  /** The repository has another name or owner. */
  | { kind: "placed"; place: ReportedLocation }
  /** The app reaches it no more. */
  | { kind: "left"; where: InstallationScope; reason: string }
  /** The app reaches it again, by this installation. */
  | { kind: "returned"; where: InstallationScope; places: ReportedLocation[] };

const Account = z.object({ id: z.number(), login: z.string() });
const ListedRepositories = z.array(z.object({ id: z.number(), name: z.string() })).default([]);
const Installation = z.object({ id: z.number(), account: Account });
const PreviousName = z.object({ from: z.string() });

const InstallationPayload = z.object({ installation: Installation, repositories: ListedRepositories });
const RepositoriesPayload = z.object({
  installation: Installation,
  repositories_added: ListedRepositories,
  repositories_removed: ListedRepositories,
});
const RepositoryPayload = z.object({
  installation: z.object({ id: z.number() }),
  repository: WebhookRepository,
  changes: z
    .object({
      repository: z.object({ name: PreviousName }).optional(),
      owner: z.object({ from: z.object({ user: Account.nullish(), organization: Account.nullish() }) }).optional(),
    })
    .optional(),
});

/** Reads a delivery that is about a repository or an installation, and not about a thread; undefined for any other. */
export function readAccessEvent({ name, payload }: Delivery): AccessEvent | undefined {
  const { action } = payload as { action?: unknown };
  const event = `${name}.${action}`;
  switch (name) {
    case "repository":
      return readRepositoryEvent(event, RepositoryPayload.safeParse(payload).data);
    case "installation":
      return readInstallationEvent(event, InstallationPayload.safeParse(payload).data);
    case "installation_repositories":
      return readRepositoriesEvent(event, RepositoriesPayload.safeParse(payload).data);
    default:
      return undefined;
  }
}

function readRepositoryEvent(
  event: string,
  told: z.infer<typeof RepositoryPayload> | undefined,
): AccessEvent | undefined {
  if (!told) return undefined;
  const { installation, repository, changes } = told;
  const { owner, name: repo } = repository;
  const place = readLocation(repository, installation.id, repository.updated_at);
  if (!place) return undefined;

  if (event === "repository.deleted") {
    const where = { installationId: installation.id, repositoryIds: [place.repositoryId] };
    return { kind: "left", where, reason: `The repository ${owner.login}/${repo} was deleted.` };
  }
  const { user, organization } = changes?.owner?.from ?? {};
  const from = { owner: (user ?? organization)?.login, repo: changes?.repository?.name.from };
  const isTold = from.owner !== undefined || from.repo !== undefined;
  const previousName = isTold ? { owner: from.owner ?? owner.login, repo: from.repo ?? repo } : undefined;
  return { kind: "placed", place: { ...place, previousName } };
}

function readInstallationEvent(
  event: string,
  told: z.infer<typeof InstallationPayload> | undefined,
): AccessEvent | undefined {
  if (!told) return undefined;
  const { installation, repositories } = told;
  const { id: installationId, account } = installation;
  switch (event) {
    case "installation.deleted":
      return { kind: "left", where: { installationId }, reason: `The app was uninstalled from ${account.login}.` };
    case "installation.suspend":
      return { kind: "left", where: { installationId }, reason: `The app was suspended by ${account.login}.` };
    case "installation.unsuspend":
      return { kind: "returned", where: { installationId }, places: [] };
    default:
      return accessRestored(installation, repositories);
  }
}

function readRepositoriesEvent(
  event: string,
  told: z.infer<typeof RepositoriesPayload> | undefined,
): AccessEvent | undefined {
  if (!told) return undefined;
  const { installation, repositories_added, repositories_removed } = told;
  if (event === "installation_repositories.added") return accessRestored(installation, repositories_added);

  const where = { installationId: installation.id, repositoryIds: repositories_removed.map(({ id }) => id) };
  return { kind: "left", where, reason: "The app was taken off this repository." };
}

function accessRestored(
  { id: installationId, account }: z.infer<typeof Installation>,
  listed: z.infer<typeof ListedRepositories>,
): AccessEvent {
  const places = listed.map(({ id, name }) => ({
    repositoryId: id,
    installationId,
    ownerId: account.id,
    owner: account.login,
    repo: name,
    at: Date.now(),
  }));
  return { kind: "returned", where: { installationId, repositoryIds: listed.map(({ id }) => id) }, places };
}
