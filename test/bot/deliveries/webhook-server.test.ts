import { once } from "node:events";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { createWebhookServer, type WebhookServerOptions } from "#bot/deliveries/webhook-server.ts";

let stop = async () => {};
afterEach(() => stop());

async function start(options: Partial<WebhookServerOptions> = {}) {
  const server = createWebhookServer({
    host: "127.0.0.1",
    port: 0,
    webhookPath: "/hooks",
    receive: async () => ({ status: 200, message: "ok" }),
    ready: async () => "ready",
    ...options,
  });
  const { port } = await server.start();
  stop = server.stop;
  return port;
}

/** What a server says until it hangs up. */
async function heardOn(socket: Socket): Promise<string> {
  const heard: Buffer[] = [];
  socket.on("data", (piece: Buffer) => heard.push(piece)).on("error", () => {});
  await once(socket, "close");
  return Buffer.concat(heard).toString();
}

const headers = [
  "POST /hooks HTTP/1.1",
  "Host: x",
  "Content-Type: application/json",
  "X-GitHub-Delivery: d",
  "X-GitHub-Event: issue_comment",
  "X-Hub-Signature-256: sha256=00",
].join("\r\n");

describe("a client that holds a connection is hung up on", () => {
  const patience = { headersMs: 100, requestMs: 200 };

  test.each([
    ["and never ends its headers", "POST /hooks HTTP/1.1\r\nHost: x\r\nX-Slow: "],
    ["and never sends its body", `${headers}\r\nContent-Length: 100\r\n\r\n`],
    ["and never ends its body", `${headers}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`],
  ])("%s", async (_, sent) => {
    const socket = connect(await start({ timeouts: patience }), "127.0.0.1");
    socket.write(sent);

    expect(await heardOn(socket)).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("and floods its headers", async () => {
    const socket = connect(await start(), "127.0.0.1");
    socket.write(`${headers}\r\n${"X-More: x\r\n".repeat(5_000)}\r\n`);

    expect(await heardOn(socket)).toMatch(/^HTTP\/1\.1 431 /);
  });
});

test("a body that says it is too long is refused before a byte of it is read", async () => {
  const socket = connect(await start(), "127.0.0.1");
  socket.write(`${headers}\r\nContent-Length: 99999999\r\n\r\n`);

  expect(await heardOn(socket)).toMatch(/^HTTP\/1\.1 413 /);
});

test("many large bodies at once are not all held: the rest is to come again", async () => {
  const port = await start();
  const body = Buffer.alloc(24 * 1024 * 1024, " ");

  /** A body that lacks its last byte is held. */
  function hold(): { answer: Promise<number>; destroy(): void } {
    const [, ...lines] = headers.split("\r\n");
    const sending = request({
      port,
      host: "127.0.0.1",
      path: "/hooks",
      method: "POST",
      headers: { ...Object.fromEntries(lines.map((line) => line.split(": "))), "content-length": body.length + 1 },
    });
    const answer = once(sending, "response").then(([response]) => response.statusCode);
    answer.catch(() => {});
    sending.on("error", () => {}).write(body);
    return { answer, destroy: () => sending.destroy() };
  }

  const held = Array.from({ length: 5 }, hold);

  expect(await Promise.race(held.map(({ answer }) => answer))).toBe(503);
  for (const one of held) one.destroy();
});
