import { LRUCache } from "lru-cache";
import type { OpenGitHub, Permission, RepositoryRef } from "#domain/github.ts";

/** GitHub's answers about people and repositories, cached for a minute. For display only: commands always ask GitHub. */
export interface AccessCache {
  /** `unknown` if GitHub did not answer. */
  permissionOf(repository: RepositoryRef, person: { login: string; id: number }): Promise<Permission | "unknown">;
  /** True if GitHub did not answer. */
  isPrivate(repository: RepositoryRef): Promise<boolean>;
}

const lifetimeMs = 60_000;
const maxEntries = 2_000;

export function createAccessCache({ openGitHub, now }: { openGitHub: OpenGitHub; now: () => number }): AccessCache {
  const permission = cached<Permission>(now);
  const visibility = cached<boolean>(now);
  return {
    permissionOf: (repository, { login, id }) =>
      permission(`${keyOf(repository)} ${id}`, () => openGitHub(repository).getPermission(login, id), "unknown"),
    isPrivate: (repository) =>
      visibility(keyOf(repository), async () => (await openGitHub(repository).getRepository()).private, true),
  };
}

function keyOf({ installationId, repositoryId, owner, repo }: RepositoryRef): string {
  return `${installationId}/${repositoryId ?? `${owner}/${repo}`}`;
}

/** Caches answers by key. Concurrent requests share one answer. A failure resolves to the fallback and is not cached. */
function cached<T>(now: () => number) {
  const answers = new LRUCache<string, { answer: Promise<T> }>({
    max: maxEntries,
    ttl: lifetimeMs,
    ttlResolution: 0,
    perf: { now },
  });
  return async <F>(key: string, ask: () => Promise<T>, fallback: F): Promise<T | F> => {
    const entry = answers.get(key) ?? { answer: ask() };
    answers.set(key, entry, { noUpdateTTL: true });
    try {
      return await entry.answer;
    } catch {
      answers.delete(key);
      return fallback;
    }
  };
}
