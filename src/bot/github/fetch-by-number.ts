/**
 * Gives the fetch for all that is asked of one repository: by its number, as GitHub itself links to it, so that a name that
 * was given up leads nowhere else. What GitHub has moved to another repository, such as an issue, is gone from this one.
 */
export function fetchByNumber({ owner, repo }: { owner: string; repo: string }, repositoryId: number): typeof fetch {
  const named = `/repos/${encodeURIComponent(owner)}/${encodeURIComponent(repo)}`;
  const numbered = `/repositories/${repositoryId}`;
  const isBelow = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`);

  return async (input, init) => {
    const url = new URL(String(input));
    const start = url.pathname.indexOf(named);
    if (start >= 0 && isBelow(url.pathname.slice(start), named)) {
      url.pathname = `${url.pathname.slice(0, start)}${numbered}${url.pathname.slice(start + named.length)}`;
    }
    const response = await fetch(url, { ...init, redirect: "manual" });
    if (response.status < 300 || response.status >= 400 || response.status === 304) return response;

    await response.body?.cancel();
    return Response.json({ message: "Moved to another repository" }, { status: 410 });
  };
}
