import { domainToASCII } from "node:url";
import { UserError } from "#domain/errors.ts";

/** A function that says whether a host is on the list: exact names, or `*.example.com` for everything below. Throws a UserError for what is neither. */
export function hostList(patterns: readonly string[]): (host: string) => boolean {
  const exact = new Set<string>();
  const suffixes: string[] = [];
  for (const pattern of patterns) {
    const isSuffix = pattern.startsWith("*.");
    const host = plainHost(isSuffix ? pattern.slice(2) : pattern);
    if (host === undefined || (isSuffix && !host.includes("."))) {
      throw new UserError(`"${pattern}" is not a host: write docs.example.com, or *.example.com for all below it.`);
    }
    if (isSuffix) suffixes.push(`.${host}`);
    else exact.add(host);
  }
  return (host) => {
    const plain = plainHost(host);
    return plain !== undefined && (exact.has(plain) || suffixes.some((suffix) => plain.endsWith(suffix)));
  };
}

/** A host as DNS writes it: lower case, punycode, no dot at the end; undefined for what is none. */
function plainHost(host: string): string | undefined {
  const ascii = domainToASCII(host.replace(/\.$/, ""));
  return /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/.test(ascii) && !ascii.includes("..") ? ascii : undefined;
}
