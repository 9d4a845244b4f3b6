import type { RepositoryRef } from "#domain/github.ts";
import type { ThreadRef } from "#runtime/runs.ts";
import type { DeliveryScope } from "./handler.ts";
import type { ThreadPayload } from "./payloads.ts";

/** GitHub redelivers for three days, and keys of handled events are kept for longer than this. */
const maxAgeMs = 7 * 24 * 60 * 60_000;

/** Returns why an event of a thread is ignored, whatever it is. */
export function ignoreThread(
  { repository }: Pick<ThreadPayload, "repository">,
  at: Date | undefined,
  { serves }: DeliveryScope,
): string | undefined {
  if (at && Date.now() - at.getTime() > maxAgeMs) return "it is more than a week old";
  const [owner, repo] = [repository.owner.login, repository.name];
  return serves({ owner, repo }) ? undefined : `${owner}/${repo} is not on the list of repositories`;
}

export function threadOf({ installation, repository }: Omit<ThreadPayload, "action">, number: number): ThreadRef {
  return {
    ...(repository.id === undefined ? {} : { repositoryId: repository.id }),
    installationId: installation.id,
    owner: repository.owner.login,
    repo: repository.name,
    thread: number,
  };
}

/** Identifies an event of a thread by signed fields alone; undefined where the payload has no time. */
export function threadEventKey(
  { action, repository }: ThreadPayload,
  number: number,
  at: Date | undefined,
): string | undefined {
  return at && `${repository.owner.login}/${repository.name}#${number} ${action} ${at.toISOString()}`;
}

/** Deliveries of one thread are processed in order. */
export function queueOf({ installation, repository }: Omit<ThreadPayload, "action">, number: number): string {
  const { id: repositoryId, owner, name: repo } = repository;
  return queueIn({ installationId: installation.id, repositoryId, owner: owner.login, repo }, number);
}

/** Returns the queue of a thread. Further words make it a queue of another kind; `tenantsOf` reads its beginning. */
export function queueIn({ installationId, repositoryId, owner, repo }: RepositoryRef, thread: number): string {
  return `${installationId} ${repositoryId ?? `${owner}/${repo}`}#${thread}`;
}
