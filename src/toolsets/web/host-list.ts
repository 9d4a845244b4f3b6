import { domainToASCII } from "node:url";
import { UserError } from "#domain/errors.ts";

/**
 * Returns a predicate for the hosts on a list of exact names and `*.example.com` patterns, which match all subdomains.
 * Throws a UserError for any other pattern.
 */
export function hostList(patterns: readonly string[]): (host: string) => boolean {
  const exact = new Set<string>();
  const suffixes: string[] = [];
  for (const pattern of patterns) {
    const isSuffix = pattern.startsWith("*.");
    const host = plainHost(isSuffix ? pattern.slice(2) : pattern);
    if (host === undefined || (isSuffix && !host.includes("."))) {
      throw new UserError(`"${pattern}" is not a host: use docs.example.com, or *.example.com for all its subdomains.`);
    }
    if (isSuffix) suffixes.push(`.${host}`);
    else exact.add(host);
  }
  return (host) => {
    const plain = plainHost(host);
    return plain !== undefined && (exact.has(plain) || suffixes.some((suffix) => plain.endsWith(suffix)));
  };
}

/** Returns a host in canonical DNS form: lower case, Punycode, without a trailing dot. Undefined if it is not a valid host. */
function plainHost(host: string): string | undefined {
  const ascii = domainToASCII(host.replace(/\.$/, ""));
  return /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/.test(ascii) && !ascii.includes("..") ? ascii : undefined;
}
