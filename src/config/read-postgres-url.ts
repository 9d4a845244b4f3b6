const postgresUrl =
  /^postgres(?:ql)?:\/\/(?:[^:@/?#\s]*(?::(?<password>[^/?#\s]*))?@)?(?:\[[0-9a-f:]+\]|[^/?#:@\s]*)(?::\d{1,5})?(?:\/[^/?#\s]*)?(?:\?(?<query>[^#\s]*))?$/i;

/** The passwords in the address of a PostgreSQL database; undefined when it is none, or cannot be read. */
export function readPostgresUrl(url: string): { passwords: string[] } | undefined {
  const found = postgresUrl.exec(url)?.groups;
  if (!found) return undefined;
  const { password, query } = found;
  const given = new URLSearchParams(query).get("password");
  try {
    const plain = password === undefined ? [] : [password, decodeURIComponent(password)];
    return { passwords: [...plain, ...(given === null ? [] : [given])] };
  } catch {
    return undefined;
  }
}
