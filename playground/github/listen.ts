import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { UserError } from "#domain/errors.ts";

/** Listens on a port of 127.0.0.1, 0 for any that is free, and resolves to it. Throws a UserError when it is taken. */
export function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const taken = new UserError(`Port ${port} is in use already. Choose another with --port.`, { cause: error });
      reject(error.code === "EADDRINUSE" ? taken : error);
    });
    server.listen(port, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}
