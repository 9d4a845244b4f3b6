import { lookup as systemLookup } from "node:dns/promises";
import ipaddr from "ipaddr.js";

export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

export type Resolve = (host: string) => Promise<ResolvedAddress[]>;

/** Ranges that look public: IPv4 addresses written as IPv6 once were, which some routers still unwrap, and Azure's host of its machines. */
const embedded = ["::/96", "168.63.129.16/32"].map((range) => ipaddr.parseCIDR(range));

/** True for an address of the public internet: not of this machine, a private network, a cloud's metadata, or a disguise of one. */
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
 * The addresses of a host, every one of them public. One that is not makes all of them void: an answer that mixes both
 * is an attack. Connect to what this returns and not to the name, or the name can mean something else by then.
 */
export async function publicAddresses(host: string, resolve: Resolve = resolveBySystem): Promise<ResolvedAddress[]> {
  const found = await resolve(host);
  if (found.length === 0) throw new Error(`${host} has no address`);
  for (const { address } of found) {
    if (!isPublicAddress(address)) throw new Error(`${host} is not on the public internet`);
  }
  return found;
}

async function resolveBySystem(host: string): Promise<ResolvedAddress[]> {
  const found = await systemLookup(host, { all: true, verbatim: true });
  return found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }));
}
