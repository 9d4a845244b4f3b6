const maxRedirects = 3;

/**
 * Returns a fetch for requests about one repository. GitHub redirects an old name of a repository to its id, which is
 * followed for this id alone; whatever was moved to another repository, such as an issue, is gone from this one (410).
 */
export function fetchInRepository(
  repositoryId: number | undefined,
  {
    apiUrl,
    onRenamed,
    returnsDownloads = false,
  }: {
    apiUrl: string;
    onRenamed: () => void;
    /** Redirects to a download (302) are returned: the receiver follows them without a token. */
    returnsDownloads?: boolean;
  },
): typeof fetch {
  const root = `${apiUrl}/repositories/${repositoryId}`;

  return async (input, init) => {
    let url = String(input);
    for (let redirects = 0; ; redirects++) {
      const response = await fetch(url, { ...init, redirect: "manual" });
      if (response.status < 300 || response.status >= 400 || response.status === 304) return response;

      const target = new URL(response.headers.get("location") ?? "", url).href;
      const isSameRepository =
        repositoryId !== undefined &&
        (target === root || target.startsWith(`${root}/`) || target.startsWith(`${root}?`));
      if (!isSameRepository && returnsDownloads && response.status === 302) return response;

      await response.body?.cancel();
      if (!isSameRepository || redirects >= maxRedirects) {
        return Response.json({ message: "Moved to another repository" }, { status: 410 });
      }
      onRenamed();
      url = target;
    }
  };
}
