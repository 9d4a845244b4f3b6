import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

// The baseline for an HTTP server in Node: reads a request and answers it, without storing anything.

const server = createServer((request, response) => {
  request.resume().on("end", () => response.end("ok"));
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`);
});
