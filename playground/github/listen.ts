import { randomInt } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { UserError } from "#domain/errors.ts";

/** Listens on a port of 127.0.0.1 (0 for any free one) and returns it. Throws a UserError if the port is taken. */
export function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const taken = new UserError(`Port ${port} is already in use. Choose another one with --port.`, { cause: error });
      reject(error.code === "EADDRINUSE" ? taken : error);
    });
    server.listen(port, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}

/**
 * Finds a free port of 127.0.0.1 for a server that starts later. It is below 32768, because systems assign higher ports to
 * connections and other servers, possibly before the server listens.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_240, 32_768);
    const server = createServer();
    const isFree = await listen(server, port).then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
