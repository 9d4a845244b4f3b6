import { canWrite, type GitHub } from "#domain/github.ts";

/** Whether someone may run commands. A refusal is `denied` once an hour, and `deniedAgain` for the rest of it. */
type Authorization = "allowed" | "denied" | "deniedAgain";

export type Authorize = (github: GitHub, who: { login: string; thread: number }) => Promise<Authorization>;

const refusalIntervalMs = 60 * 60_000;

/**
 * Creates the function that asks GitHub, for every command, whether its author has write access. A person without it is
 * `denied` at most once per hour and thread, so that strangers cannot make the app post comments. `isFirst` is true for
 * the first call with a key, across restarts.
 */
export function createAuthorize(isFirst: (key: string) => Promise<boolean>, now: () => number = Date.now): Authorize {
  return async (github, { login, thread }) => {
    if (canWrite(await github.getPermission(login))) return "allowed";

    const { installationId, owner, repo } = github.repository;
    const hour = Math.floor(now() / refusalIntervalMs);
    const key = `refusal ${installationId} ${owner}/${repo}#${thread} ${login} ${hour}`.toLowerCase();
    return (await isFirst(key)) ? "denied" : "deniedAgain";
  };
}
