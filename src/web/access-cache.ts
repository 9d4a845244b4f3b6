import { LRUCache } from "lru-cache";
import type { OpenGitHub, Permission, RepositoryRef } from "#domain/github.ts";

/** GitHub's answers about people and repositories, cached for a minute. For display only: commands always ask GitHub. */
export type AccessCache = ReturnType<typeof createAccessCache>;

const lifetimeMs = 60_000;
/** A stream asks several times a second, even while GitHub refuses. */
const failureLifetimeMs = 2_000;
const maxEntries = 2_000;

export function createAccessCache({ openGitHub, now }: { openGitHub: OpenGitHub; now: () => number }) {
  const permission = cached<Permission | "unknown">(now, "unknown");
  const visibility = cached(now, true);
  return {
    /** `unknown` if GitHub did not answer. */
    permissionOf: (repository: RepositoryRef, { login, id }: { login: string; id: number }) =>
      permission(`${keyOf(repository)} ${id}`, () => openGitHub(repository).getPermission(login, id)),
    /** True if GitHub did not answer. */
    isPrivate: (repository: RepositoryRef) =>
      visibility(keyOf(repository), async () => (await openGitHub(repository).getRepository()).private),
  };
}

function keyOf({ installationId, repositoryId, owner, repo }: RepositoryRef): string {
  return `${installationId}/${repositoryId ?? `${owner}/${repo}`}`;
}

/** Caches answers by key. Concurrent requests share one answer. A failure resolves to the fallback. */
function cached<T>(now: () => number, fallback: T) {
  const answers = new LRUCache<string, { answer: Promise<T> }>({
    max: maxEntries,
    ttl: lifetimeMs,
    ttlResolution: 0,
    perf: { now },
  });
  return (key: string, ask: () => Promise<T>): Promise<T> => {
    const known = answers.get(key);
    if (known) return known.answer;
    const answer = ask().catch(() => {
      answers.set(key, { answer: Promise.resolve(fallback) }, { ttl: failureLifetimeMs });
      return fallback;
    });
    answers.set(key, { answer });
    return answer;
  };
}
