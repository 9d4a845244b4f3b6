import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { afterEach, expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { type GitRequest, readBody, request } from "#sandbox/git/request.ts";

const servers: { close: () => void }[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function serve(listener: RequestListener): Promise<URL> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  servers.push({ close: () => server.close(() => {}) && server.closeAllConnections() });
  await once(server, "listening");
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
}

async function ask(url: URL, more: Partial<GitRequest> = {}): Promise<string> {
  const response = await request({
    method: "GET",
    url,
    headers: {},
    maxBytes: 1_000,
    repeatable: true,
    signal: new AbortController().signal,
    ...more,
  });
  return (await readBody(response)).toString();
}

test("a stale keep-alive connection is replaced once", async () => {
  const seen = new WeakSet();
  let dropped = 0;
  const url = await serve((incoming, response) => {
    if (seen.has(incoming.socket)) {
      dropped++;
      incoming.socket.destroy();
      return;
    }
    seen.add(incoming.socket);
    response.end("here");
  });
  await ask(url);

  const answer = await ask(url);

  expect(answer).toBe("here");
  expect(dropped).toBe(1);
});

test("a request that may have taken effect is not repeated", async () => {
  const seen = new WeakSet();
  let asked = 0;
  const url = await serve((incoming, response) => {
    asked++;
    if (seen.has(incoming.socket)) {
      incoming.socket.destroy();
      return;
    }
    seen.add(incoming.socket);
    response.end("here");
  });
  await ask(url);

  await expect(ask(url, { method: "POST", body: Buffer.from("x"), repeatable: false })).rejects.toThrow(
    /cannot be reached/,
  );

  expect(asked).toBe(2);
});

test("a response that is too large is rejected", async () => {
  const url = await serve((_, response) => {
    const endless = new Readable({ read: () => endless.push(Buffer.alloc(600)) });
    endless.pipe(response).on("close", () => endless.destroy());
  });

  const error = await ask(url).catch((thrown) => thrown);

  expect(error).toBeInstanceOf(UserError);
  expect(error.message).toMatch(/^The repository is too large to work on/);
});

test("an unreachable server is an outage", async () => {
  const url = await serve((_, response) => response.end());
  servers.splice(0)[0]?.close();

  await expect(ask(url)).rejects.toThrow("The git server cannot be reached: ECONNREFUSED.");
});
