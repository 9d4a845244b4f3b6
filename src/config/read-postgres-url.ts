const postgresUrl =
  /^postgres(?:ql)?:\/\/(?:[^:@/?#\s]*(?::(?<password>[^/?#\s]*))?@)?(?:\[[0-9a-f:]+\]|[^/?#:@\s]*)(?::\d{1,5})?(?:\/[^/?#\s]*)?(?:\?(?<query>[^#\s]*))?$/i;

/** Extracts the passwords from a PostgreSQL connection URL. Returns undefined for other or malformed URLs. */
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
