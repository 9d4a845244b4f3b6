import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { createOsExecutor } from "#executors/os/os-executor.ts";
import { startRegistryProxy } from "#executors/os/registry-proxy.ts";
import type { ResolvedAddress } from "#executors/public-address.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";

const registry = createServer((socket) => socket.end("hello from the registry")).listen(0, "127.0.0.1");
await new Promise((resolve) => registry.once("listening", resolve));
const { port } = registry.address() as { port: number };
const allowed = `localhost:${port}`;
const executor = createOsExecutor({ privateRegistries: [allowed] });
const { available } = await executor.probe();
afterAll(async () => {
  await executor.close();
  registry.close();
});

/** Asks for a tunnel as npm does, and prints what comes through it. */
const tunnel = `
const net = require("node:net");
const proxy = process.env.https_proxy ? new URL(process.env.https_proxy) : { hostname: "127.0.0.1", port: 1 };
const socket = net.connect(Number(proxy.port), proxy.hostname, () => socket.write("CONNECT " + process.argv[1] + " HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"));
socket.on("data", (chunk) => process.stdout.write(chunk));
socket.on("error", (error) => console.log(error.code));
`;

async function open() {
  const session = await executor.open();
  const workspace = memoryWorkspace({});
  const ask = (target: string, network: string[]) =>
    session.exec(workspaceTree(workspace, workspace), {
      command: ["node", "-e", tunnel, target],
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
