import { chmodSync } from "node:fs";
import { createServer } from "node:http";
import { connect, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { messageOf } from "#domain/errors.ts";
import { publicAddresses, type Resolve } from "#executors/public-address.ts";
import { guestProxy } from "./bubblewrap.ts";

export interface RegistryProxyOptions {
  /** The path of the socket to listen on. */
  socket: string;
  /** Exact names: `host` for port 443, or `host:port`. */
  allowed: readonly string[];
  /** The allowed hosts that may have a private address, such as a company's own registry. */
  privateHosts: readonly string[];
  /** Default: the system's. */
  resolve?: Resolve;
}

export interface RegistryProxy {
  /** The hosts that were refused or could not be reached, each with the reason as a sentence. */
  readonly refused: ReadonlyMap<string, string>;
  close(): Promise<void>;
}

const maxConnections = 64;
const maxRefused = 5;
const connectTimeoutMs = 10_000;

/**
 * Starts a proxy that tunnels to the allowed hosts only. A tunnel has to begin with TLS for its host: at the address of a
 * registry, a content delivery network serves anyone's sites. The proxy inspects nothing else of a tunnel, not even the second
 * message of a client that a server asks for (HelloRetryRequest).
 */
export async function startRegistryProxy({
  socket,
  allowed,
  privateHosts,
  resolve,
}: RegistryProxyOptions): Promise<RegistryProxy> {
  const refused = new Map<string, string>();
  const hosts = new Set(allowed.map((host) => (host.includes(":") ? host : `${host}:443`).toLowerCase()));
  const own = new Set(privateHosts.map((host) => (host.includes(":") ? host : `${host}:443`).toLowerCase()));
  const server = createServer((_, response) => response.writeHead(403).end("Only tunnels to the registry."));
  server.maxConnections = maxConnections;
  // The server does not close tunnels, and one that waits for its host does not notice that its client has closed.
  const clients = new Set<Duplex>();

  const note = (target: string, reason: string) => {
    if (refused.size < maxRefused) refused.set(target.slice(0, 200), reason);
  };

  server.on("connect", async (request, client, head) => {
    const target = (request.url ?? "").toLowerCase();
    const [host = "", port = ""] = target.split(":");
    clients.add(client);
    client.on("error", () => client.destroy());
    client.on("close", () => clients.delete(client));
    // Package managers retry for minutes after any other status.
    const refuse = (reason: string) => {
      note(target, reason);
      client.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    };
    if (!hosts.has(target)) return refuse("It is not one of the hosts that this command may reach.");
    try {
      const address = own.has(target) ? host : (await publicAddresses(host, resolve))[0]?.address;
      if (client.destroyed) return;
      const upstream = connect({ host: address, port: Number(port) }, async () => {
        upstream.setTimeout(0);
        client.write("HTTP/1.1 200 Connection established\r\n\r\n");
        const hello = await readHello(client, head);
        if (isIP(host) === 0 && serverNameOf(hello) !== host) {
          // A client that closes the connection unused has done nothing wrong.
          if (hello.length > 0) note(target, "The connection did not begin with TLS that names this server.");
          client.destroy();
          return;
        }
        upstream.write(hello);
        upstream.pipe(client);
        client.pipe(upstream);
      });
      upstream.setTimeout(connectTimeoutMs, () => upstream.destroy(new Error("the host does not answer")));
      upstream.on("error", (error) => {
        if (upstream.bytesRead === 0) note(target, `The connection failed: ${messageOf(error)}.`);
        client.destroy();
      });
      upstream.on("close", () => client.destroy());
      client.on("close", () => upstream.destroy());
    } catch (error) {
      const reason = messageOf(error);
      refuse(`${reason}. Registries with a private address are named in GOLEM_FORGE_PRIVATE_REGISTRIES.`);
    }
  });

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(socket, resolve);
  });
  // The folder that contains the socket is visible to only one sandbox.
  chmodSync(socket, 0o777);
  return {
    refused,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        for (const client of clients) client.destroy();
        server.close(() => resolve());
      }),
  };
}

/** The maximum size of the beginning of a TLS connection, in bytes, and of the pieces in which it arrives. It has about two thousand. */
const maxHello = { bytes: 20_000, pieces: 100 };

/** Reads from a client until its TLS names a server, or until it is clear that it does not. */
function readHello(client: Duplex, head: Buffer): Promise<Buffer> {
  return new Promise((resolve) => {
    let hello = head;
    let pieces = 0;
    const finish = () => {
      client.pause();
      client.off("data", add).off("end", finish).off("close", finish);
      resolve(hello);
    };
    const add = (chunk: Buffer) => {
      hello = Buffer.concat([hello, chunk]);
      pieces += 1;
      const isTooLong = hello.length > maxHello.bytes || pieces > maxHello.pieces;
      if (isTooLong || serverNameOf(hello) !== undefined) finish();
    };
    client.on("data", add).on("end", finish).on("close", finish);
    add(Buffer.alloc(0));
  });
}

/** Returns the name of the server in the first message of TLS; undefined while it is incomplete, empty without a plain one. */
export function serverNameOf(data: Buffer): string | undefined {
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; ) {
    if (data[at] !== handshakeRecord) return "";
    if (data.length < at + 5) break;
    const end = at + 5 + data.readUInt16BE(at + 3);
    parts.push(data.subarray(at + 5, end));
    at = end;
  }
  const message = Buffer.concat(parts);
  if (message.length < 4) return undefined;
  if (message[0] !== clientHello) return "";
  const end = 4 + message.readUIntBE(1, 3);
  if (message.length < end) return undefined;
  try {
    return readServerName(message.subarray(4, end));
  } catch (error) {
    if (error instanceof RangeError) return "";
    throw error;
  }
}

const handshakeRecord = 22;
const clientHello = 1;
const serverNameExtension = 0;
/** Of Encrypted Client Hello, in which another server may be named. */
const encryptedHelloExtension = 0xfe0d;

/** Throws a RangeError for a message that ends too early. */
function readServerName(body: Buffer): string {
  let at = 34;
  at += 1 + body.readUInt8(at);
  at += 2 + body.readUInt16BE(at);
  at += 1 + body.readUInt8(at);
  const end = at + 2 + body.readUInt16BE(at);
  const names: string[] = [];
  for (at += 2; at < end; at += 4 + body.readUInt16BE(at + 2)) {
    const extension = body.readUInt16BE(at);
    if (extension === encryptedHelloExtension) return "";
    if (extension !== serverNameExtension) continue;
    // A list with one name of a host, which is all that clients send: its length, type and name with its length.
    const [length, name] = [body.readUInt16BE(at + 7), at + 9];
    if (body.readUInt16BE(at + 4) !== length + 3 || body.readUInt8(at + 6) !== 0) return "";
    names.push(body.toString("latin1", name, name + length));
  }
  return names.length === 1 ? (names[0] ?? "").toLowerCase() : "";
}

// The sandbox has only a loopback interface. This forwards its proxy port to the socket on the host.
const script = `
const net = require("node:net");
const { spawn } = require("node:child_process");
const server = net.createServer((client) => {
  const host = net.connect("${guestProxy}/proxy.sock");
  client.on("error", () => host.destroy());
  host.on("error", () => client.destroy());
  client.pipe(host).pipe(client);
}).listen(0, "127.0.0.1", () => {
  const proxy = "http://127.0.0.1:" + server.address().port;
  const names = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"];
  const open = { NODE_USE_SYSTEM_CA: "1", npm_config_offline: "false", CARGO_NET_OFFLINE: "false", PIP_NO_INDEX: "0" };
  const env = { ...process.env, ...open, ...Object.fromEntries(names.map((name) => [name, proxy])) };
  const [program, ...args] = process.argv.slice(1);
  const child = spawn(program, args, { stdio: "inherit", env });
  child.on("error", (error) => { console.error(error.message); process.exit(127); });
  child.on("exit", (code, signal) => process.exit(signal ? 137 : code));
});
`;

/** Wraps a command so that the registry proxy is its only access to the network. */
export function proxiedCommand(command: readonly string[]): string[] {
  return ["node", "-e", script, "--", ...command];
}
