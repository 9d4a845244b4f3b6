import { canWrite, type GitHub } from "#domain/github.ts";

/** What became of someone's wish to command: `told` comes once in each hour, then `reminded`. */
type Authorization = "allowed" | "told" | "reminded";

export type Authorize = (github: GitHub, who: { login: string; thread: number }) => Promise<Authorization>;

const refusalIntervalMs = 60 * 60_000;

/**
 * Gives the function that asks GitHub, each time anew, whether someone may command here. Those who may not are told
 * so in words at most once in each hour and thread, so that strangers cannot make us noisy. `isFirst` is true for the
 * first time a key is given, across restarts.
 */
export function createAuthorize(isFirst: (key: string) => Promise<boolean>, now: () => number = Date.now): Authorize {
  return async (github, { login, thread }) => {
    if (canWrite(await github.getPermission(login))) return "allowed";

    const { installationId, owner, repo } = github.repository;
    const hour = Math.floor(now() / refusalIntervalMs);
    const key = `refusal ${installationId} ${owner}/${repo}#${thread} ${login} ${hour}`.toLowerCase();
    return (await isFirst(key)) ? "told" : "reminded";
  };
}
