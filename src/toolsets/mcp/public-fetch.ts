import type { LookupFunction } from "node:net";
import { Agent, fetch as undiciFetch } from "undici";
import { isPublicAddress, publicAddresses, type Resolve } from "#executors/public-address.ts";

/** The longest response taken from a server, in bytes. */
const maxResponseBytes = 32_000_000;

/** Creates a fetch that connects only to public addresses, and to the very address that was checked. */
export function createPublicFetch(resolve?: Resolve): { fetch: typeof globalThis.fetch; close(): Promise<void> } {
  const lookup: LookupFunction = (host, options, callback) => {
    publicAddresses(host, resolve).then(
      (found) => (options.all ? callback(null, found) : callback(null, found[0]?.address ?? "", found[0]?.family)),
      (error: Error) => callback(error, ""),
    );
  };
  const agent = new Agent({ connect: { lookup } });
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    // A literal address is not looked up.
    if ((/^[\d.]+$/.test(host) || host.includes(":")) && !isPublicAddress(host)) {
      throw new Error(`${host} is not on the public internet`);
    }
    type Init = NonNullable<Parameters<typeof undiciFetch>[1]>;
    return (await undiciFetch(url, { ...(init as Init), dispatcher: agent })) as unknown as Response;
  };
  return { fetch: limitedFetch(fetch as typeof globalThis.fetch), close: () => agent.destroy() };
}

/** Wraps a fetch so that a response that is too long fails. */
export function limitedFetch(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!response.body) return response;

    let bytes = 0;
    const limit = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length;
        if (bytes > maxResponseBytes) controller.error(new Error("The server's response is too long"));
        else controller.enqueue(chunk);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(limit), { status, statusText, headers: new Headers([...headers]) });
  };
}
