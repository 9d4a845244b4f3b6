import { once } from "node:events";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test, vi } from "vitest";
import { WebhookServer, type WebhookServerOptions } from "#bot/deliveries/webhook-server.ts";
import { longestTurnMs } from "../../support/longest-turn.ts";

let stop = async () => {};
afterEach(() => stop());

const defaults: WebhookServerOptions = {
  host: "127.0.0.1",
  port: 0,
  webhookPath: "/hooks",
  receive: async () => ({ status: 200, message: "ok" }),
  ready: async () => "ready",
};

async function start(options: Partial<WebhookServerOptions> = {}) {
  const server = new WebhookServer({ ...defaults, ...options });
  const { port } = await server.start();
  stop = () => server.stop();
  return port;
}

const nextTurn = () => new Promise<false>((resolve) => setImmediate(resolve, false));

/** Reads what the server sends until it closes the connection. */
async function responseOn(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", () => {});
  await once(socket, "close");
  return Buffer.concat(chunks).toString();
}

const headers = [
  "POST /hooks HTTP/1.1",
  "Host: x",
  "Content-Type: application/json",
  "X-GitHub-Delivery: d",
  "X-GitHub-Event: issue_comment",
  "X-Hub-Signature-256: sha256=00",
].join("\r\n");

describe("clients that are too slow or send too much", () => {
  const timeouts = { headersMs: 100, requestMs: 200 };

  test.each([
    ["never ends its headers", "POST /hooks HTTP/1.1\r\nHost: x\r\nX-Slow: "],
    ["never sends its body", `${headers}\r\nContent-Length: 100\r\n\r\n`],
    ["never ends its body", `${headers}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`],
  ])("the connection of a client that %s is closed", async (_, sent) => {
    const socket = connect(await start({ timeouts }), "127.0.0.1");
    socket.write(sent);

    expect(await responseOn(socket)).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("the connection of a client that sends too many headers is closed", async () => {
    const socket = connect(await start(), "127.0.0.1");
    socket.write(`${headers}\r\n${"X-More: x\r\n".repeat(5_000)}\r\n`);

    expect(await responseOn(socket)).toMatch(/^HTTP\/1\.1 431 /);
  });
});

test.skipIf(process.platform !== "linux")(
  "several connections are accepted in each turn of the event loop, so that long turns do not delay deliveries for long",
  async () => {
    const port = await start();
    const sockets = Array.from({ length: 50 }, () => connect(port, "127.0.0.1"));
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    const responses = sockets.map((socket) => once(socket, "data"));
    for (const socket of sockets) socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");

    let turns = 0;
    const answered = Promise.all(responses).then(() => true);
    while (!(await Promise.race([answered, nextTurn()]))) turns += 1;

    expect(turns).toBeLessThan(30);
    for (const socket of sockets) socket.destroy();
  },
);

test("at most 256 connections are open at once, and a further one is closed", async () => {
  const port = await start();
  const sockets = await Promise.all(
    Array.from({ length: 256 }, async () => {
      const socket = connect(port, "127.0.0.1");
      socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
      await once(socket, "data");
      return socket;
    }),
  );

  const further = connect(port, "127.0.0.1");
  expect(await responseOn(further)).toBe("");

  const [first, ...others] = sockets;
  first?.destroy();
  await vi.waitFor(async () => {
    const next = connect(port, "127.0.0.1");
    next.write("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(await responseOn(next)).toMatch(/^HTTP\/1\.1 200 /);
  });
  for (const socket of others) socket.destroy();
});

test("a body that is too long by its Content-Length is refused before it is read", async () => {
  const socket = connect(await start(), "127.0.0.1");
  socket.write(`${headers}\r\nContent-Length: 99999999\r\n\r\n`);

  expect(await responseOn(socket)).toMatch(/^HTTP\/1\.1 413 /);
});

test.each([
  ["25 MB of empty objects", `{"a":[${"{},".repeat(8_000_000)}{}]}`, 413],
  ["25 MB of line feeds in strings that do not end", `["${'"\n'.repeat(12_000_000)}`, 200],
  ["a push of 2,048 commits", JSON.stringify(samplePush(2_048)), 200],
  ["a comment of 10 MB of commas and brackets", JSON.stringify({ body: '[{"a":1},'.repeat(1_000_000) }), 200],
])("of %s, the values are counted before they are parsed", async (_, body, status) => {
  const port = await start();
  const fields = headers
    .split("\r\n")
    .slice(2)
    .map((line) => line.split(": ") as [string, string]);

  let response: Response | undefined;
  const blockedMs = await longestTurnMs(async () => {
    response = await fetch(`http://127.0.0.1:${port}/hooks`, { method: "POST", headers: fields, body });
  });

  expect(response?.status).toBe(status);
  expect(blockedMs).toBeLessThan(300);
});

/** A push with as many values as GitHub sends. */
function samplePush(commits: number) {
  const person = { name: "Ada", email: "ada@example.com", username: "ada" };
  const files = Array.from({ length: 20 }, (_, index) => `src/file-${index}.ts`);
  const commit = { id: "a".repeat(40), message: "Work", author: person, committer: person, added: files, removed: [] };
  return { ref: "refs/heads/main", commits: Array(commits).fill({ ...commit, modified: files }) };
}

test("bounds the memory of large bodies that arrive at once, and asks for the rest to be delivered again", async () => {
  const port = await start({ timeouts: { headersMs: 120_000, requestMs: 120_000 } });
  const body = Buffer.alloc(24 * 1024 * 1024, " ");

  /** Sends a body without its last byte, so that the server keeps it. */
  function sendUnfinished(): { answer: Promise<number>; destroy(): void } {
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

  const requests = Array.from({ length: 5 }, sendUnfinished);

  expect(await Promise.race(requests.map(({ answer }) => answer))).toBe(503);
  for (const sent of requests) sent.destroy();
});
