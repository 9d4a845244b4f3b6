import { canWrite, type GitHub } from "#github.ts";

/** What became of someone's wish to command: `told` comes once an hour, then `reminded`. */
type Standing = "allowed" | "told" | "reminded";

export type Authorize = (github: GitHub, who: { login: string; thread: number }) => Promise<Standing>;

const quietMs = 60 * 60_000;
const remembered = 10_000;

/**
 * Gives the function that asks GitHub, each time anew, whether someone may command here. Those who may not are told
 * so in words at most once an hour and thread, so that strangers cannot make us noisy.
 */
export function createAuthorize(now: () => number = Date.now): Authorize {
  const told = new Map<string, number>();

  return async (github, { login, thread }) => {
    if (canWrite(await github.permissionOf(login))) return "allowed";

    const { installationId, owner, repo } = github.repository;
    const key = `${installationId} ${owner}/${repo}#${thread} ${login}`.toLowerCase();
    const last = told.get(key);
    if (last !== undefined && now() - last < quietMs) return "reminded";

    told.delete(key);
    told.set(key, now());
    const oldest = told.keys().next().value;
    if (told.size > remembered && oldest !== undefined) told.delete(oldest);
    return "told";
  };
}
