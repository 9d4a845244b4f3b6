import { z } from "zod";
import type { HeardPlace } from "#domain/repository-place.ts";
import type { Reach } from "#runtime/runs.ts";
import type { Delivery } from "./read-comment.ts";
import { readPlace, SeenRepository } from "./webhook-repository.ts";

/** What became of a repository, or of what the app reaches. */
export type News =
  /** The repository has another name or owner. */
  | { kind: "placed"; place: HeardPlace }
  /** The app reaches it no more. */
  | { kind: "left"; where: Reach; reason: string }
  /** The app reaches it again, by this installation. */
  | { kind: "returned"; where: Reach; places: HeardPlace[] };

const Account = z.object({ id: z.number(), login: z.string() });
const Listed = z.array(z.object({ id: z.number(), name: z.string() })).default([]);
const Installation = z.object({ id: z.number(), account: Account });
const From = z.object({ from: z.string() });

const OfInstallation = z.object({ installation: Installation, repositories: Listed });
const OfList = z.object({
  installation: Installation,
  repositories_added: Listed,
  repositories_removed: Listed,
});
const OfRepository = z.object({
  installation: z.object({ id: z.number() }),
  repository: SeenRepository,
  changes: z
    .object({
      repository: z.object({ name: From }).optional(),
      owner: z.object({ from: z.object({ user: Account.nullish(), organization: Account.nullish() }) }).optional(),
    })
    .optional(),
});

/** Reads a delivery that is about a repository or an installation, and not about a thread; undefined for any other. */
export function readNews({ name, payload }: Delivery): News | undefined {
  const { action } = payload as { action?: unknown };
  const event = `${name}.${action}`;
  switch (name) {
    case "repository":
      return readRepositoryNews(event, OfRepository.safeParse(payload).data);
    case "installation":
      return readInstallationNews(event, OfInstallation.safeParse(payload).data);
    case "installation_repositories":
      return readListNews(event, OfList.safeParse(payload).data);
    default:
      return undefined;
  }
}

function readRepositoryNews(event: string, told: z.infer<typeof OfRepository> | undefined): News | undefined {
  if (!told) return undefined;
  const { installation, repository, changes } = told;
  const { owner, name: repo } = repository;
  const place = readPlace(repository, installation.id, repository.updated_at);
  if (!place) return undefined;

  if (event === "repository.deleted") {
    const where = { installationId: installation.id, repositoryIds: [place.repositoryId] };
    return { kind: "left", where, reason: `The repository ${owner.login}/${repo} was deleted.` };
  }
  const { user, organization } = changes?.owner?.from ?? {};
  const from = { owner: (user ?? organization)?.login, repo: changes?.repository?.name.from };
  const isTold = from.owner !== undefined || from.repo !== undefined;
  const formerly = isTold ? { owner: from.owner ?? owner.login, repo: from.repo ?? repo } : undefined;
  return { kind: "placed", place: { ...place, formerly } };
}

function readInstallationNews(event: string, told: z.infer<typeof OfInstallation> | undefined): News | undefined {
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
      return returned(installation, repositories);
  }
}

function readListNews(event: string, told: z.infer<typeof OfList> | undefined): News | undefined {
  if (!told) return undefined;
  const { installation, repositories_added, repositories_removed } = told;
  if (event === "installation_repositories.added") return returned(installation, repositories_added);

  const where = { installationId: installation.id, repositoryIds: repositories_removed.map(({ id }) => id) };
  return { kind: "left", where, reason: "The app was taken off this repository." };
}

function returned({ id: installationId, account }: z.infer<typeof Installation>, listed: z.infer<typeof Listed>): News {
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
