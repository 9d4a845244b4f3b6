import type { OpenGitHub, Permission, RepositoryRef } from "#domain/github.ts";

/** What GitHub said of people and repositories a moment ago, for what is only shown. Commands ask anew. */
export interface Standings {
  /** Fails closed: `none` when GitHub does not say. */
  permissionOf(repository: RepositoryRef, login: string): Promise<Permission>;
  /** Fails closed: true when GitHub does not say. */
  isPrivate(repository: RepositoryRef): Promise<boolean>;
  /** The title of an issue or pull request; undefined when it cannot be read. */
  titleOf(repository: RepositoryRef, thread: number): Promise<string | undefined>;
}

const freshMs = 60_000;
const mostRemembered = 2_000;

export function createStandings({ openGitHub, now }: { openGitHub: OpenGitHub; now: () => number }): Standings {
  const remembered = new Map<string, { at: number; answer: Promise<unknown> }>();

  function remember<T>(key: string, ask: () => Promise<T>): Promise<T> {
    const known = remembered.get(key);
    if (known && now() - known.at < freshMs) return known.answer as Promise<T>;
    if (remembered.size >= mostRemembered) remembered.clear();
    const answer = ask();
    remembered.set(key, { at: now(), answer });
    return answer;
  }

  const named = ({ installationId, repositoryId, owner, repo }: RepositoryRef) =>
    `${installationId}/${repositoryId ?? `${owner}/${repo}`}`;
  return {
    permissionOf: (repository, login) =>
      remember(`permission ${named(repository)} ${login}`, () =>
        openGitHub(repository)
          .getPermission(login)
          .catch(() => "none" as const),
      ),
    isPrivate: (repository) =>
      remember(`private ${named(repository)}`, () =>
        openGitHub(repository)
          .getRepository()
          .then(
            (described) => described.private,
            () => true,
          ),
      ),
    titleOf: (repository, thread) =>
      remember(`title ${named(repository)}#${thread}`, () =>
        openGitHub(repository)
          .getIssue(thread)
          .then(
            (issue) => issue?.title,
            () => undefined,
          ),
      ),
  };
}
