/** True when a list of `owner/repo` and `owner/*`, in lower case, names this repository. */
export function listsRepository(list: readonly string[], { owner, repo }: { owner: string; repo: string }): boolean {
  return list.includes(`${owner}/${repo}`.toLowerCase()) || list.includes(`${owner}/*`.toLowerCase());
}
