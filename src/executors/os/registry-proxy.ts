import { chmodSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { publicAddresses } from "#executors/public-address.ts";

export interface RegistryProxyOptions {
  /** The path of the socket to listen on. */
  socket: string;
  /** `host` on port 443, or `host:port`. Exact names. */
  allowed: readonly string[];
  /** Of those, the ones that may have a private address: a company's own registry. */
  privateHosts: readonly string[];
}

export interface RegistryProxy {
  /** Hosts that were asked for and refused. */
  readonly refused: ReadonlySet<string>;
  close(): Promise<void>;
}

const maxConnections = 64;

/** A proxy that tunnels to the allowed hosts and nowhere else. It never looks into a tunnel. */
export async function startRegistryProxy({
  socket,
  allowed,
  privateHosts,
}: RegistryProxyOptions): Promise<RegistryProxy> {
  const refused = new Set<string>();
  const hosts = new Set(allowed.map((host) => (host.includes(":") ? host : `${host}:443`).toLowerCase()));
  const own = new Set(privateHosts.map((host) => (host.includes(":") ? host : `${host}:443`).toLowerCase()));
  const server = createServer((_, response) => response.writeHead(403).end("Only tunnels to the registry."));
  server.maxConnections = maxConnections;

  server.on("connect", async (request, client, head) => {
    const target = (request.url ?? "").toLowerCase();
    const [host = "", port = ""] = target.split(":");
    client.on("error", () => client.destroy());
    if (!hosts.has(target)) {
      refused.add(target.slice(0, 200));
      client.end("HTTP/1.1 403 Forbidden\r\n\r\n");
      return;
    }
    try {
      const address = own.has(target) ? host : (await publicAddresses(host))[0]?.address;
      const upstream = connect({ host: address, port: Number(port) }, () => {
        client.write("HTTP/1.1 200 Connection established\r\n\r\n");
        upstream.write(head);
        upstream.pipe(client);
        client.pipe(upstream);
      });
      upstream.on("error", () => client.destroy());
      upstream.on("close", () => client.destroy());
      client.on("close", () => upstream.destroy());
    } catch {
      refused.add(target.slice(0, 200));
      client.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    }
  });

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(socket, resolve);
  });
  // The folder around it is only shown to one guest.
  chmodSync(socket, 0o777);
  return {
    refused,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
