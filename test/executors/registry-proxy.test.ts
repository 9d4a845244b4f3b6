import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { createOsExecutor } from "#executors/os/os-executor.ts";
import { serverNameOf, startRegistryProxy } from "#executors/os/registry-proxy.ts";
import type { ResolvedAddress } from "#executors/public-address.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";

const received: Buffer[] = [];
const registry = createServer((socket) => {
  socket.on("error", () => socket.destroy());
  socket.once("data", (chunk: Buffer) => {
    received.push(chunk);
    socket.end("hello from the registry");
  });
}).listen(0, "127.0.0.1");
await new Promise((resolve) => registry.once("listening", resolve));
const { port } = registry.address() as { port: number };
const allowed = `localhost:${port}`;
const executor = createOsExecutor({ privateRegistries: [allowed] });
const { available } = await executor.probe();
afterAll(async () => {
  await executor.close();
  registry.close();
});

/** Returns what a client sends first to begin TLS with a server. */
async function helloTo(servername: string | undefined): Promise<Buffer> {
  received.length = 0;
  const client = connectTls({ port, host: "127.0.0.1", servername: servername ?? "" }).on("error", () => {});
  await new Promise((resolve) => client.once("close", resolve));
  return received[0] ?? Buffer.alloc(0);
}
const [hello, helloToAnother, helloToNone] = [
  await helloTo("localhost"),
  await helloTo("evil.example"),
  await helloTo(undefined),
];

/** Asks for a tunnel as npm does, begins TLS in it, and prints what comes through it. */
const tunnel = `
const net = require("node:net");
const proxy = process.env.https_proxy ? new URL(process.env.https_proxy) : { hostname: "127.0.0.1", port: 1 };
const socket = net.connect(Number(proxy.port), proxy.hostname, () => socket.write("CONNECT " + process.argv[1] + " HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"));
socket.once("data", () => socket.write(Buffer.from(process.argv[2], "base64")));
socket.on("data", (chunk) => process.stdout.write(chunk));
socket.on("error", (error) => console.log(error.code));
`;

async function open() {
  const session = await executor.open();
  const workspace = memoryWorkspace({});
  const ask = (target: string, network: string[]) =>
    session.exec(workspaceTree(workspace, workspace), {
      command: ["node", "-e", tunnel, target, hello.toString("base64")],
      timeoutMs: 120_000,
      outputBytes: 2_000,
      network,
    });
  return { session, ask };
}

describe.skipIf(!available)("command with network", () => {
  test("a command reaches only the allowed registry, and nothing once it has ended", async () => {
    const { session, ask } = await open();

    expect((await ask(allowed, [allowed])).stdout).toContain("hello from the registry");
    for (const target of [
      `127.0.0.1:${port}`,
      "169.254.169.254:80",
      "example.com:443",
      `localhost:${port + 1}`,
      `LOCALHOST.:${port}`,
    ]) {
      expect((await ask(target, [allowed])).stdout).toMatch(/^HTTP\/1\.1 403/);
    }
    expect((await ask(allowed, [])).stdout).toBe("ECONNREFUSED\n");
    await session.close();
  });

  test("a registry with a private address is refused unless the deployment names it", async () => {
    const { session, ask } = await open();

    const refused = await ask(`127.0.0.1:${port}`, [`127.0.0.1:${port}`]);

    // After 502, package managers try again for minutes.
    expect(refused.stdout).toMatch(/^HTTP\/1\.1 403/);
    await session.close();
  });

  test("a command with network is ended with all its processes when it is interrupted", async () => {
    const { session } = await open();
    const workspace = memoryWorkspace({});
    const stop = new AbortController();
    const running = session.exec(workspaceTree(workspace, workspace), {
      command: ["bash", "-c", "echo up; sleep 60"],
      timeoutMs: 120_000,
      outputBytes: 100,
      network: [allowed],
      signal: stop.signal,
      onOutput: () => stop.abort(),
    });

    await expect(running).rejects.toMatchObject({ code: "INTERRUPTED" });
    await session.close();
  });
});

describe("a tunnel", () => {
  async function startProxyFor(host: string) {
    const folder = mkdtempSync(join(tmpdir(), "golem-proxy-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const socket = join(folder, "proxy.sock");
    const proxy = await startRegistryProxy({ socket, allowed: [host], privateHosts: [host] });
    onTestFinished(() => proxy.close());
    return { proxy, socket };
  }

  /** Opens a tunnel to the registry, sends parts in it, and returns what it answers. */
  async function answerTo(parts: readonly Buffer[]) {
    const { proxy, socket } = await startProxyFor(allowed);
    // The proxy may close the connection before everything is written.
    const client = connect(socket).on("error", () => {});
    client.write(`CONNECT ${allowed} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await once(client, "data");
    received.length = 0;
    let answer = "";
    client.on("data", (chunk) => {
      answer += chunk;
    });
    for (const part of parts) {
      client.write(part);
      await new Promise(setImmediate);
    }
    client.end();
    if (!client.closed) await new Promise((resolve) => client.once("close", resolve));
    return { answer, sent: Buffer.concat(received).length, refused: [...proxy.refused.keys()] };
  }
  const inParts = (data: Buffer, size: number) =>
    Array.from({ length: Math.ceil(data.length / size) }, (_, at) => data.subarray(at * size, (at + 1) * size));
  /** The same message in records of a few bytes each. */
  const inRecords = (data: Buffer) =>
    Buffer.concat(inParts(data.subarray(5), 50).map((part) => Buffer.from([22, 3, 1, 0, part.length, ...part])));

  test.each([
    ["at once", [hello]],
    ["in small parts", inParts(hello, 40)],
    ["in small records", [inRecords(hello)]],
  ])("is forwarded if it begins with TLS for its host: %s", async (_, parts) => {
    const { answer, sent, refused } = await answerTo(parts);

    expect(answer).toBe("hello from the registry");
    expect(sent).toBe(Buffer.concat(parts).length);
    expect(refused).toEqual([]);
  });

  test.each([
    ["another server", helloToAnother],
    ["no server", helloToNone],
    ["something else than TLS", Buffer.from("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")],
    ["a message without an end", hello.subarray(0, hello.length - 1)],
    ["endless records", Buffer.alloc(30_000, Buffer.from([22, 3, 1, 0, 1, 1]))],
  ])("ends before anything is sent if it names %s", async (_, data) => {
    expect(await answerTo([data])).toEqual({ answer: "", sent: 0, refused: [allowed] });
  });

  test("is not waited for if it begins in hundreds of pieces, each of which is read with all before it", async () => {
    expect(await answerTo(inParts(hello, 2))).toEqual({ answer: "", sent: 0, refused: [allowed] });
  });

  /** Returns the first message of TLS with an extension added. */
  function withExtension(extension: Buffer): Buffer {
    const extended = Buffer.concat([hello, extension]);
    let start = 43 + 1 + hello.readUInt8(43);
    start += 2 + hello.readUInt16BE(start);
    start += 1 + hello.readUInt8(start);
    extended.writeUInt16BE(extended.readUInt16BE(3) + extension.length, 3);
    extended.writeUIntBE(extended.readUIntBE(6, 3) + extension.length, 6, 3);
    extended.writeUInt16BE(extended.readUInt16BE(start) + extension.length, start);
    return extended;
  }

  test("names its server in one place only, and none in an encrypted part", () => {
    const name = Buffer.from("localhost");
    const again = hello.subarray(hello.indexOf(name) - 9, hello.indexOf(name) + name.length);

    expect(serverNameOf(hello)).toBe("localhost");
    expect(serverNameOf(withExtension(Buffer.from([0x1a, 0x1a, 0, 1, 0])))).toBe("localhost");
    expect(serverNameOf(withExtension(again))).toBe("");
    expect(serverNameOf(withExtension(Buffer.from([0xfe, 0x0d, 0, 1, 0])))).toBe("");
  });

  test("to a host that cannot be reached ends at once, with the reason", async () => {
    const closed = createServer().listen(0, "127.0.0.1");
    await once(closed, "listening");
    const target = `localhost:${(closed.address() as { port: number }).port}`;
    await new Promise((resolve) => closed.close(resolve));
    const { proxy, socket } = await startProxyFor(target);

    const client = connect(socket).on("error", () => {});
    client.write(`CONNECT ${target} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await new Promise((resolve) => client.once("close", resolve));

    expect([...proxy.refused]).toEqual([[target, expect.stringContaining("The connection failed: ")]]);
  });

  test("that its client closes unused is not reported as refused", async () => {
    expect(await answerTo([])).toEqual({ answer: "", sent: 0, refused: [] });
  });
});

test("no tunnel is opened once the proxy is closed, and a host that is still looked up does not keep it from closing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "golem-proxy-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const asked = Promise.withResolvers<void>();
  const found = Promise.withResolvers<ResolvedAddress[]>();
  const socket = join(folder, "proxy.sock");
  const resolve = () => {
    asked.resolve();
    return found.promise;
  };
  const proxy = await startRegistryProxy({ socket, allowed: ["registry.example"], privateHosts: [], resolve });
  const client = connect(socket);
  client.write("CONNECT registry.example:443 HTTP/1.1\r\nHost: x\r\n\r\n");
  await asked.promise;
  const opened: Socket[] = [];
  const note = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    opened.push(socket);
    // It must not reach the network.
    socket.destroy();
  };
  subscribe("net.client.socket", note);
  onTestFinished(() => void unsubscribe("net.client.socket", note));

  client.destroy();
  await once(client, "close");
  await proxy.close();
  found.resolve([{ address: "11.0.0.1", family: 4 }]);
  await new Promise(setImmediate);

  expect(opened).toEqual([]);
});
