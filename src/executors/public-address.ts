import { lookup as systemLookup } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";

export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

export type Resolve = (host: string) => Promise<ResolvedAddress[]>;

/** Ranges that look public: IPv4-compatible IPv6 addresses, which some routers translate, and Azure's host service. */
const embedded = ["::/96", "168.63.129.16/32"].map((range) => ipaddr.parseCIDR(range));

/** True for a public address: not of this machine, a private network or cloud metadata, in any form. */
export function isPublicAddress(address: string): boolean {
  try {
    const parsed = ipaddr.process(address);
    const isDisguised = embedded.some((range) => range[0].kind() === parsed.kind() && parsed.match(range));
    return parsed.range() === "unicast" && !isDisguised;
  } catch {
    return false;
  }
}

/**
 * Resolves a host to its addresses, all of which have to be public: a mix of public and private addresses is an attack.
 * Connect to the returned addresses and not to the name, which may resolve differently the next time.
 */
export async function publicAddresses(host: string, resolve: Resolve = resolveBySystem): Promise<ResolvedAddress[]> {
  const found = await resolve(host);
  if (found.length === 0) throw new Error(`${host} has no address`);
  for (const { address } of found) {
    if (!isPublicAddress(address)) throw new Error(`${host} is not on the public internet`);
  }
  return found;
}

/** Returns a lookup for sockets, which connect to the addresses that were checked. */
export function publicLookup(resolve?: Resolve): LookupFunction {
  return (host, options, callback) => {
    publicAddresses(host, resolve).then(
      (found) => (options.all ? callback(null, found) : callback(null, found[0]?.address ?? "", found[0]?.family)),
      (error: Error) => callback(error, ""),
    );
  };
}

async function resolveBySystem(host: string): Promise<ResolvedAddress[]> {
  const found = await systemLookup(host, { all: true, verbatim: true });
  return found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }));
}
