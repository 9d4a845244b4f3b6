import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { type BotWorld, botWorlds, deliver, recordingRuns, sign } from "../../support/bot-world.ts";

const startWorld = botWorlds();
let world: BotWorld;

beforeEach(async () => {
  world = await startWorld();
});

const payload = () => world.commentPayload();

describe("signatures", () => {
  test.each([
    ["no signature", ""],
    ["a signature of another secret", sign("{}", "another secret")],
    ["a signature of another body", sign("[]")],
    ["an SHA-1 signature", "sha1=0123456789012345678901234567890123456789"],
    ["no hex", "sha256=zzzz"],
    ["a short signature", "sha256=00"],
    ["a word", "trust me"],
  ])("%s: 401, and nothing happens", async (_, signature) => {
    const answer = await world.deliver({}, { headers: { "x-hub-signature-256": signature } });

    expect(answer.status).toBe(401);
    expect(world.runs.startRun).not.toHaveBeenCalled();
  });

  test("a secret that is not set keeps the app from starting", async () => {
    await expect(world.startBot({ environment: { WEBHOOK_SECRET: "" } })).rejects.toThrow("WEBHOOK_SECRET");
  });
});

describe("requests that are no deliveries", () => {
  const post = (init: RequestInit, path = "/api/github/webhooks") =>
    fetch(world.url + path, { method: "POST", ...init });
  const headers = (body: string) => ({
    "content-type": "application/json",
    "x-github-delivery": "d",
    "x-github-event": "issue_comment",
    "x-hub-signature-256": sign(body),
  });

  test("a signed body that is no JSON object: 400", async () => {
    for (const body of ["{", "null", "7", '"x"'])
      expect((await post({ body, headers: headers(body) })).status).toBe(400);
  });

  test("a form, a GET, another path, no delivery id", async () => {
    expect(
      (await post({ body: "a=b", headers: { ...headers("a=b"), "content-type": "application/x-www-form-urlencoded" } }))
        .status,
    ).toBe(415);
    expect((await fetch(`${world.url}/api/github/webhooks`)).status).toBe(405);
    expect((await post({ body: "{}", headers: headers("{}") }, "/elsewhere")).status).toBe(404);
    expect((await post({ body: "{}", headers: { ...headers("{}"), "x-github-delivery": "" } })).status).toBe(400);
  });

  test("an event nobody subscribed to, or of an odd shape: 200, and nothing happens", async () => {
    expect((await world.deliver({}, { name: "ping" })).status).toBe(200);
    expect((await world.deliver({}, { name: "no_such_event" })).status).toBe(200);
    expect((await world.deliver({ action: "created", issue: 7 })).status).toBe(200);
    expect((await world.deliver([])).status).toBe(200);
  });

  test("more than GitHub sends: 413", async () => {
    const body = " ".repeat(26 * 1024 * 1024);

    const answer = await post({ body, headers: headers(body) }).catch(() => ({ status: 413 }));

    expect(answer.status).toBe(413);
  });

  test("the path is the one that was configured", async () => {
    const elsewhere = await world.startBot({ environment: { WEBHOOK_PATH: "/hooks/" } });
    const body = JSON.stringify(payload());

    const answer = await fetch(`${elsewhere.url}/hooks`, { method: "POST", body, headers: headers(body) });

    expect(answer.status).toBe(200);
    expect(elsewhere.runs.startRun).toHaveBeenCalledOnce();
    await elsewhere.bot.stop();
  });
});

describe("each delivery counts once", () => {
  test("at the same time", async () => {
    const stored = Promise.withResolvers<never>();
    world.runs.startRun.mockImplementationOnce(() => stored.promise);
    const said = payload();

    const answers = Promise.all([1, 2, 3].map(() => world.deliver(said, { id: "d1" })));
    await vi.waitFor(() => expect(world.runs.startRun).toHaveBeenCalled());
    stored.resolve(undefined as never);

    expect((await answers).map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(world.runs.startRun).toHaveBeenCalledOnce();
  });

  test("one after the other, and replayed under another delivery id", async () => {
    const said = payload();

    for (const id of ["d1", "d1", "d2"]) expect((await world.deliver(said, { id })).status).toBe(200);

    expect(world.runs.startRun).toHaveBeenCalledOnce();
  });

  test("replayed after a restart it is told under the same name, which the store knows", async () => {
    const said = payload();
    await world.deliver(said, { id: "d1" });
    const restarted = await world.startBot();

    await deliver(restarted.url, said, { id: "d2" });

    await restarted.bot.stop();
    const [first, second] = world.runs.startRun.mock.calls.map(([{ deliveryId }]) => deliveryId);
    expect(second).toBe(first);
    expect(first).toMatch(/^comment \d+ 20/);
  });

  test("what was not stored is answered 500, and is heard when it comes again with the same id", async () => {
    world.runs.startRun.mockRejectedValueOnce(new Error("disk full"));
    const said = payload();

    expect((await world.deliver(said, { id: "d1" })).status).toBe(500);
    expect((await world.deliver(said, { id: "d1" })).status).toBe(200);

    const [first, second] = world.runs.startRun.mock.calls.map(([{ deliveryId }]) => deliveryId);
    expect(second).toBe(first);
  });

  test("200 comes only when the command is stored", async () => {
    const stored = Promise.withResolvers<never>();
    world.runs.startRun.mockImplementationOnce(() => stored.promise);
    let answered = false;

    const answer = world.deliver(payload()).then((response) => {
      answered = true;
      return response;
    });
    await vi.waitFor(() => expect(world.runs.startRun).toHaveBeenCalled());

    expect(answered).toBe(false);
    stored.resolve(undefined as never);
    expect((await answer).status).toBe(200);
  });
});

describe("health", () => {
  test("the process lives; it is ready while its store answers", async () => {
    const ready = vi.fn(async () => {});
    const { bot, url } = await world.startBot({ ready });

    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    ready.mockRejectedValueOnce(new Error("locked"));
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    await bot.stop();
  });

  test("stopping answers what is in hand and takes nothing more", async () => {
    const runs = recordingRuns();
    const stored = Promise.withResolvers<never>();
    runs.startRun.mockImplementationOnce(() => stored.promise);
    const { bot, url } = await world.startBot({ runs });

    const answer = deliver(url, payload());
    await vi.waitFor(() => expect(runs.startRun).toHaveBeenCalled());
    const stopped = bot.stop();
    stored.resolve(undefined as never);

    expect((await answer).status).toBe(200);
    expect((await answer).headers.get("connection")).toBe("close");
    await stopped;
    await expect(deliver(url, payload())).rejects.toThrow();
  });

  test("a port that is taken is said", async () => {
    await expect(world.startBot({ environment: { PORT: new URL(world.url).port } })).rejects.toThrow(
      "cannot listen: address already in use",
    );
  });
});

describe("deliveries that were missed", () => {
  const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
  const delivery = (id: number, guid: string, status_code: number, minutes: number, event = "issue_comment") => ({
    id,
    guid,
    status_code,
    status: status_code === 200 ? "OK" : "failed",
    delivered_at: ago(minutes),
    redelivery: false,
    duration: 0.1,
    event,
    action: "created",
    installation_id: 7,
    repository_id: 1,
  });

  test("are requested again at the start, oldest first; others are not", async () => {
    await world.bot.stop();
    const redelivered: number[] = [];
    const deliveries = [
      delivery(9, "young", 502, 0.1),
      delivery(8, "late", 502, 5),
      delivery(7, "retried", 200, 6),
      delivery(6, "retried", 502, 7),
      delivery(5, "stored", 200, 8),
      delivery(4, "push", 502, 9, "push"),
      ...[31, 32, 33, 34].map((id) => delivery(id, "hopeless", 500, 10 + id)),
      delivery(3, "early", 0, 60),
      delivery(2, "ancient", 502, 60 * 24 * 4),
    ];
    world.hub.onRequest(({ path, operation }) => {
      if (operation === "GET /app/hook/deliveries") return { status: 200, body: deliveries };
      const [, id] = /deliveries\/(\d+)\/attempts$/.exec(path) ?? [];
      if (id === undefined) return undefined;
      redelivered.push(Number(id));
      return { status: 202 };
    });

    const { bot } = await world.startBot();

    await vi.waitFor(() => expect(redelivered).toEqual([3, 8]));
    await bot.stop();
  });
});

test("webhooks arrive through a proxy, and their signatures count there too", async () => {
  const said = payload();
  const events = ["not json", { ready: true }, proxied(said, sign(JSON.stringify(said), "another")), proxied(said)];
  const proxy = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of events) response.write(`data: ${JSON.stringify(event)}\n\n`);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/channel`;

  const { bot, runs } = await world.startBot({ environment: { WEBHOOK_PROXY_URL: url } });

  await vi.waitFor(() => expect(runs.startRun).toHaveBeenCalledOnce());
  await bot.stop();
  proxy.closeAllConnections();
  proxy.close();
});

function proxied(body: object, signature = sign(JSON.stringify(body))): object {
  return {
    "x-github-delivery": "d-proxy",
    "x-github-event": "issue_comment",
    "x-hub-signature-256": signature,
    "content-type": "application/json",
    body,
    timestamp: 1,
  };
}
