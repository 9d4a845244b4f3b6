/** True for a repository that a list of `owner/repo` and `owner/*`, all in lower case, names. */
export function isListedRepository(list: readonly string[], owner: string, repo: string): boolean {
  return list.includes(`${owner}/${repo}`.toLowerCase()) || list.includes(`${owner}/*`.toLowerCase());
}
