import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { startForge } from "../../test/support/forge-world.ts";
import type { Bench, Figure } from "../figure.ts";
import { interleaved, median, percentile, timed } from "../measure.ts";

const threads = 10;
const deliveries = 200;
const rounds = 3;
const atOnce = 16;

export const webhooksBench: Bench = {
  name: "webhooks",
  measure: async () => {
    // The model never answers, so every thread has a run that does nothing but wait.
    const environment = { GOLEM_FORGE_STATUS_INTERVAL_MS: "600000", GOLEM_FORGE_RUNS_PER_HOUR: "1000" };
    const forge = await startForge({ script: () => ({ hang: true }), environment });
    const bare = await startBareServer();
    try {
      await forge.startProcess();
      const issues = await Promise.all(
        Array.from({ length: threads }, async (_, index) => {
          const issue = forge.github.as("visitor").openIssue({ title: `Thread ${index}`, body: "Nothing is wrong." });
          forge.github.as("maintainer").comment(issue.number, "/run fixer");
          await forge.botComment(issue.number, /is working/);
          return issue.number;
        }),
      );
      return [
        await compare("comment", { forge, bareUrl: bare.url, issues }),
        await compare("closed", { forge, bareUrl: bare.url, issues }),
      ];
    } finally {
      bare.stop();
      await forge.close();
    }
  },
};

/** The event of a delivery: a maintainer's comment, or the closing of the thread. */
type Kind = "comment" | "closed";

interface Setup {
  forge: Awaited<ReturnType<typeof startForge>>;
  bareUrl: string;
  issues: number[];
}

async function compare(kind: Kind, { forge, bareUrl, issues }: Setup): Promise<Figure> {
  const waits: Record<"ours" | "bare", number[]> = { ours: [], bare: [] };
  const perSecond = async (side: "ours" | "bare", url: string, round: number) => {
    const queue = Array.from({ length: deliveries }, (_, index) => {
      const id = round * deliveries + index;
      return deliveryOf(kind, { id, thread: issues[id % issues.length] ?? 0, forge });
    });
    const sender = async () => {
      for (let request = queue.pop(); request; request = queue.pop()) {
        const next = request;
        waits[side].push(await timed(() => post(url, next)));
      }
    };
    const took = await timed(() => Promise.all(Array.from({ length: atOnce }, sender)));
    return (deliveries * 1_000) / took;
  };
  const found = await interleaved(rounds, {
    ours: (round) => perSecond("ours", `${forge.url}/api/github/webhooks`, round),
    bare: (round) => perSecond("bare", bareUrl, round),
  });
  const wait = (side: "ours" | "bare") =>
    `${median(waits[side]).toFixed(1)} ms (p99 ${percentile(waits[side], 0.99).toFixed(1)} ms)`;
  const about = {
    comment: {
      name: "comments acknowledged over HTTP",
      what: "signature verified, permission requested from GitHub, stored",
      note: " GitHub is the playground, in the process that sends the deliveries.",
    },
    closed: { name: "closed threads acknowledged over HTTP", what: "signature verified, stored", note: "" },
  }[kind];
  return {
    name: about.name,
    unit: "per second",
    ours: { what: about.what, median: median(found.ours) },
    peers: [{ what: "bare node:http server that stores nothing", median: median(found.bare) }],
    rounds: found.ours.length,
    note: `${deliveries} deliveries a round, ${atOnce} at once. One takes ${wait("ours")}; the bare server's ${wait("bare")}.${about.note}`,
  };
}

/** Creates the `fetch` options of a signed delivery. */
function deliveryOf(
  kind: Kind,
  { id, thread, forge }: { id: number; thread: number; forge: Setup["forge"] },
): RequestInit {
  const person = { login: "maintainer", id: 1, type: "User" };
  const isComment = kind === "comment";
  const body = JSON.stringify({
    action: isComment ? "created" : "closed",
    installation: { id: forge.github.installationId },
    repository: { name: "shop", full_name: "playground/shop", owner: { login: "playground" } },
    // Each body is different, because equal bodies count as one delivery.
    issue: { number: thread, state: isComment ? "open" : "closed", locked: false, body: `Text ${id}.`, user: person },
    ...(isComment && { comment: { id: 1_000_000 + id, body: `Have a look at line ${id}, too.`, user: person } }),
    sender: person,
  });
  return {
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      "x-github-delivery": `bench-${kind}-${id}`,
      "x-github-event": isComment ? "issue_comment" : "issues",
      "x-hub-signature-256": `sha256=${createHmac("sha256", forge.webhookSecret).update(body).digest("hex")}`,
    },
  };
}

async function post(url: string, request: RequestInit): Promise<void> {
  const answer = await fetch(url, request);
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`A delivery was answered with ${answer.status}: ${text}`);
}

async function startBareServer(): Promise<{ url: string; stop(): void }> {
  const path = fileURLToPath(new URL("../children/bare-server.ts", import.meta.url));
  const child = spawn(process.execPath, [path], { stdio: ["ignore", "pipe", "inherit"] });
  const [address] = await once(child.stdout, "data");
  return { url: String(address).trim(), stop: () => child.kill("SIGKILL") };
}
