import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

// What Node itself can do: reads a request, answers it, and remembers nothing.

const server = createServer((request, response) => {
  request.resume().on("end", () => response.end("ok"));
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`);
});
