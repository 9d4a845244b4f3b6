import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { type Forge, startForge } from "../../test/support/forge-world.ts";
import {
  postgresPrograms,
  startPostgresServer,
  stopPostgresServer,
  whyNoPostgres,
} from "../../test/support/postgres-server.ts";
import type { Bench, Figure, Missing } from "../figure.ts";
import { interleaved, median, percentile, timed } from "../measure.ts";

const deliveries = 2_000;
const connections = 50;
const rounds = 5;

/** Acknowledged deliveries over 50 connections, compared with a server that only verifies the signature and commits the body. */
export const acknowledgementBench: Bench = {
  name: "acknowledgement",
  measure: async () => [
    await measure("SQLite", {}),
    await measure("SQLite, a new connection for each", {}, { keepAlive: false }),
    await measureOverPostgres(),
  ],
};

async function measureOverPostgres(): Promise<Figure | Missing> {
  if (!postgresPrograms) return { name: "deliveries acknowledged over PostgreSQL", missing: whyNoPostgres };
  const folder = join(tmpdir(), `golem-bench-postgres-${process.pid}`);
  const server = await startPostgresServer(folder, { durable: true });
  try {
    return await measure("PostgreSQL", { DATABASE_URL: server.url("postgres") });
  } finally {
    await stopPostgresServer(server.pid);
    await rm(folder, { recursive: true, force: true });
  }
}

async function measure(
  database: string,
  environment: Record<string, string>,
  { keepAlive = true } = {},
): Promise<Figure> {
  const forge = await startForge({ script: () => ({ hang: true }), environment });
  const bare = await startBareServer(forge.webhookSecret);
  const agent = new Agent({ keepAlive, maxSockets: connections });
  try {
    await forge.startProcess();
    const waits: Record<"ours" | "bare", number[]> = { ours: [], bare: [] };
    const perSecond = async (side: "ours" | "bare", url: string, round: number) => {
      const queue = Array.from({ length: deliveries }, (_, index) => deliveryOf(forge, round * deliveries + index));
      const sender = async () => {
        for (let next = queue.pop(); next; next = queue.pop()) {
          const delivery = next;
          waits[side].push(await timed(() => post(url, agent, delivery)));
        }
      };
      const took = await timed(() => Promise.all(Array.from({ length: connections }, sender)));
      return (deliveries * 1_000) / took;
    };
    const found = await interleaved(rounds, {
      ours: (round) => perSecond("ours", `${forge.url}/api/github/webhooks`, round),
      bare: (round) => perSecond("bare", bare.url, round),
    });
    const stored = await countDeliveries(forge);
    if (stored < found.ours.length * deliveries) throw new Error(`Only ${stored} deliveries were stored.`);
    return {
      name: `deliveries acknowledged over ${database}`,
      unit: "per second",
      ours: { what: "the app: verified, parsed, stored; processed meanwhile", median: median(found.ours) },
      peers: [
        { what: "server that verifies the signature and commits the body to SQLite", median: median(found.bare) },
      ],
      rounds: found.ours.length,
      note: `${connections} connections, ${deliveries} comments a round. p99 ${percentile(waits.ours, 0.99).toFixed(0)} ms, the bare server's ${percentile(waits.bare, 0.99).toFixed(0)} ms. The sender and the playground's GitHub share the cores.`,
    };
  } finally {
    agent.destroy();
    await bare.stop();
    await forge.close();
  }
}

async function countDeliveries({ environment, databasePath }: Forge): Promise<number> {
  const url = environment.DATABASE_URL ?? "";
  if (!url.startsWith("postgres:")) {
    const database = new DatabaseSync(databasePath, { readOnly: true });
    const row = database.prepare("select count(*) as stored from deliveries").get();
    database.close();
    return Number(row?.stored);
  }
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query("select count(*) as stored from golem_forge.deliveries");
  await client.end();
  return Number(rows[0]?.stored);
}

interface SignedDelivery {
  body: string;
  headers: Record<string, string>;
}

/** Creates the delivery of a visitor's comment in a thread without a run: it is stored and has no effect. */
function deliveryOf({ github, webhookSecret }: Forge, id: number): SignedDelivery {
  const person = { login: "visitor", id: 2, type: "User" };
  const body = JSON.stringify({
    action: "created",
    installation: { id: github.installationId },
    repository: { name: "shop", full_name: "playground/shop", owner: { login: "playground" } },
    issue: { number: 1 + (id % 500), state: "open", locked: false, body: "It is broken.", user: person },
    comment: { id: 1_000_000 + id, body: `Have a look at line ${id}, too.`, user: person },
    sender: person,
  });
  return {
    body,
    headers: {
      "content-type": "application/json",
      "x-github-delivery": `bench-${id}`,
      "x-github-event": "issue_comment",
      "x-hub-signature-256": `sha256=${createHmac("sha256", webhookSecret).update(body).digest("hex")}`,
    },
  };
}

async function post(url: string, agent: Agent, { body, headers }: SignedDelivery): Promise<void> {
  const sent = request(url, {
    method: "POST",
    agent,
    headers: { ...headers, "content-length": Buffer.byteLength(body) },
  });
  sent.end(body);
  const [response] = await once(sent, "response");
  response.resume();
  await once(response, "end");
  if (response.statusCode !== 200) throw new Error(`A delivery was answered with ${response.statusCode}.`);
}

async function startBareServer(secret: string): Promise<{ url: string; stop(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "golem-bench-bare-"));
  const path = fileURLToPath(new URL("../children/verify-and-commit.ts", import.meta.url));
  const child = spawn(process.execPath, [path, join(folder, "bare.db"), secret], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [address] = await once(child.stdout, "data");
  return {
    url: String(address).trim(),
    stop: async () => {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
