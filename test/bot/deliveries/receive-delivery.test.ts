import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { Redelivery } from "#bot/deliveries/redeliver-missed.ts";
import type { RestClient } from "#bot/github/rest-client.ts";
import { DatabaseError } from "#domain/errors.ts";
import { type BotWorld, botWorlds, deliver, sign } from "../../support/bot-world.ts";

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
  ])("a delivery with %s is answered 401, and nothing happens", async (_, signature) => {
    const answer = await world.deliver({}, { headers: { "x-hub-signature-256": signature } });

    expect(answer.status).toBe(401);
    expect(world.runs.startRun).not.toHaveBeenCalled();
  });

  test("a secret that is not set keeps the app from starting", async () => {
    await expect(world.startBot({ environment: { WEBHOOK_SECRET: "" } })).rejects.toThrow("WEBHOOK_SECRET");
  });
});

describe("requests that are not deliveries", () => {
  const post = (init: RequestInit, path = "/api/github/webhooks") =>
    fetch(world.url + path, { method: "POST", ...init });
  const headers = (body: string) => ({
    "content-type": "application/json",
    "x-github-delivery": "d",
    "x-github-event": "issue_comment",
    "x-hub-signature-256": sign(body),
  });

  test("a signed body that is not a JSON object is answered 400", async () => {
    for (const body of ["{", "null", "7", '"x"'])
      expect((await post({ body, headers: headers(body) })).status).toBe(400);
  });

  test("a form, a GET, another path and a request without a delivery id are refused", async () => {
    expect(
      (await post({ body: "a=b", headers: { ...headers("a=b"), "content-type": "application/x-www-form-urlencoded" } }))
        .status,
    ).toBe(415);
    expect((await fetch(`${world.url}/api/github/webhooks`)).status).toBe(405);
    expect((await post({ body: "{}", headers: headers("{}") }, "/elsewhere")).status).toBe(404);
    expect((await post({ body: "{}", headers: { ...headers("{}"), "x-github-delivery": "" } })).status).toBe(400);
  });

  test("an event that is not handled, or of an unexpected shape, is answered 200, and nothing happens", async () => {
    expect((await world.deliver({}, { name: "ping" })).status).toBe(200);
    expect((await world.deliver({}, { name: "no_such_event" })).status).toBe(200);
    expect((await world.deliver({ action: "created", issue: 7 })).status).toBe(200);
    expect((await world.deliver([])).status).toBe(200);
  });

  test("a body that is longer than GitHub sends is answered 413", async () => {
    const body = " ".repeat(26 * 1024 * 1024);

    const answer = await post({ body, headers: headers(body) }).catch(() => ({ status: 413 }));

    expect(answer.status).toBe(413);
  });

  test("webhooks are received at the configured path", async () => {
    const elsewhere = await world.startBot({ environment: { WEBHOOK_PATH: "/hooks/" } });
    const body = JSON.stringify(payload());

    const answer = await fetch(`${elsewhere.url}/hooks`, { method: "POST", body, headers: headers(body) });

    expect(answer.status).toBe(200);
    await elsewhere.bot.idle();
    expect(elsewhere.runs.startRun).toHaveBeenCalledOnce();
    await elsewhere.bot.stop();
  });
});

describe("each delivery is stored once", () => {
  test("a delivery that is received twice at the same time is stored once", async () => {
    const comment = payload();

    const answers = await Promise.all([1, 2, 3].map(() => world.deliver(comment, { id: "d1" })));
    await world.bot.idle();

    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(world.runs.startRun).toHaveBeenCalledOnce();
  });

  test("a delivery that is replayed under another id is stored once", async () => {
    const comment = payload();

    for (const id of ["d1", "d1", "d2"]) expect((await world.send(comment, { id })).status).toBe(200);

    expect(world.runs.startRun).toHaveBeenCalledOnce();
  });

  test("a delivery is stored in the queue of its thread, so that threads do not wait for one another", async () => {
    const saved = vi.spyOn(world.store, "saveDelivery");

    for (const number of [1, 1, 2]) await world.send(world.commentPayload({ body: "/status", issue: { number } }));

    const queues = saved.mock.calls.map(([{ queue }]) => queue);
    expect(queues[1]).toBe(queues[0]);
    expect(queues[2]).not.toBe(queues[0]);
  });

  test("a delivery that is replayed after a restart is stored once", async () => {
    const comment = payload();
    await world.send(comment, { id: "d1" });
    const restarted = await world.startBot();

    await deliver(restarted.url, comment, { id: "d2" });
    await restarted.bot.idle();

    await restarted.bot.stop();
    expect(world.runs.startRun).toHaveBeenCalledOnce();
  });

  test("a delivery that could not be stored is answered 503, and stored when it is delivered again", async () => {
    vi.spyOn(world.store, "saveDelivery").mockRejectedValueOnce(new Error("disk full"));
    const comment = payload();

    const first = await world.deliver(comment, { id: "d1" });
    expect([first.status, await first.text()]).toEqual([503, "It could not be stored. Deliver it again.\n"]);
    expect((await world.send(comment, { id: "d1" })).status).toBe(200);

    expect(world.runs.startRun).toHaveBeenCalledOnce();
  });

  test("200 is answered only when the delivery is stored, and before it is processed", async () => {
    const stored = Promise.withResolvers<boolean>();
    vi.spyOn(world.store, "saveDelivery").mockReturnValueOnce(stored.promise);
    let answered = false;

    const answer = world.deliver(payload()).then((response) => {
      answered = true;
      return response;
    });
    await vi.waitFor(() => expect(world.store.saveDelivery).toHaveBeenCalled(), { timeout: 60_000 });

    expect(answered).toBe(false);
    stored.resolve(false);
    expect((await answer).status).toBe(200);
    expect(world.runs.startRun).not.toHaveBeenCalled();
  });

  test("GitHub is asked nothing before the answer", async () => {
    const release = Promise.withResolvers<undefined>();
    world.hub.onRequest(() => release.promise);

    // It would wait for GitHub, which does not answer yet.
    expect((await world.deliver(payload())).status).toBe(200);

    release.resolve(undefined);
    await world.bot.idle();
    expect(world.runs.startRun).toHaveBeenCalledOnce();
  });
});

describe("health", () => {
  test("the process is healthy, and ready while its store answers", async () => {
    const ready = vi.fn(async () => "ready");
    const { bot, url } = await world.startBot({ ready });

    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    ready.mockRejectedValueOnce(new DatabaseError("The database /var/lib/forge.db is read-only."));
    const refused = await fetch(`${url}/readyz`);
    expect([refused.status, await refused.text()]).toEqual([
      503,
      "The database cannot be used at present. The log says why.\n",
    ]);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    await bot.stop();
  });

  test("stopping answers the requests under way and accepts no more", async () => {
    const { bot, url } = await world.startBot();
    const stored = Promise.withResolvers<boolean>();
    vi.spyOn(world.store, "saveDelivery").mockReturnValueOnce(stored.promise);

    const answer = deliver(url, payload());
    await vi.waitFor(() => expect(world.store.saveDelivery).toHaveBeenCalled(), { timeout: 60_000 });
    const stopped = bot.stop();
    stored.resolve(true);

    expect((await answer).status).toBe(200);
    expect((await answer).headers.get("connection")).toBe("close");
    await stopped;
    await expect(deliver(url, payload())).rejects.toThrow();
  });

  test("a port that is in use is reported", async () => {
    await expect(world.startBot({ environment: { PORT: new URL(world.url).port } })).rejects.toThrow(
      "cannot listen: address already in use",
    );
  });
});

describe("missed deliveries", () => {
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

  test("missed deliveries are redelivered at the start, oldest first, although GitHub refuses one; others are not", async () => {
    await world.bot.stop();
    const redelivered: number[] = [];
    const deliveries = [
      delivery(9, "recent", 502, 0.1),
      delivery(8, "late", 502, 5),
      delivery(7, "retried", 200, 6),
      delivery(6, "retried", 502, 7),
      delivery(5, "stored", 200, 8),
      delivery(4, "not subscribed to", 502, 9, "star"),
      ...Array.from({ length: 12 }, (_, index) => delivery(31 + index, "hopeless", 500, 40 + index)),
      delivery(3, "early", 0, 60),
      delivery(2, "ancient", 502, 60 * 24 * 4),
    ];
    world.hub.onRequest(({ path, operation }) => {
      if (operation === "GET /app/hook/deliveries") return { status: 200, body: deliveries };
      const [, id] = /deliveries\/(\d+)\/attempts$/.exec(path) ?? [];
      if (id === undefined) return undefined;
      redelivered.push(Number(id));
      return Number(id) === 3 ? { status: 422, body: { message: "It is too old." } } : { status: 202 };
    });

    const { bot, url } = await world.startBot();

    await vi.waitFor(() => expect(redelivered).toEqual([3, 8, 9]), { timeout: 60_000 });
    // What was asked for a moment ago is not asked for again when a delivery is missed now.
    deliveries.unshift(delivery(10, "missed now", 503, 0));
    vi.spyOn(world.store, "saveDelivery").mockRejectedValueOnce(new Error("disk full"));
    await deliver(url, payload(), { id: "missed now" });
    await vi.waitFor(() => expect(redelivered).toEqual([3, 8, 9, 10]), { timeout: 60_000 });
    await bot.stop();
  });
});

test("while GitHub does not list deliveries, missed ones are looked for again every minute", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const outcomes: ("failed" | "listed")[] = [];
  let isDown = true;
  const send = async () => {
    outcomes.push(isDown ? "failed" : "listed");
    if (isDown) throw new Error("Bad gateway");
    return { data: [], headers: {} };
  };
  const redelivery = new Redelivery({
    rest: { send } as unknown as RestClient,
    ready: async () => {},
    log: { info: () => {}, error: () => {} },
    inBackground: () => {},
  });
  redelivery.start();
  onTestFinished(() => redelivery.stop());

  await vi.advanceTimersByTimeAsync(4.5 * 60_000);
  expect(outcomes.length).toBeGreaterThanOrEqual(4);
  isDown = false;
  await vi.advanceTimersByTimeAsync(2 * 60_000);

  expect(outcomes.at(-1)).toBe("listed");
});

test("webhooks arrive through a proxy, and their signatures are verified", async () => {
  const said = payload();
  const events = ["not json", { ready: true }, proxied(said, sign(JSON.stringify(said), "another")), proxied(said)];
  const proxy = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of events) response.write(`data: ${JSON.stringify(event)}\n\n`);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/channel`;

  const { bot, runs } = await world.startBot({ environment: { WEBHOOK_PROXY_URL: url } });

  await vi.waitFor(() => expect(runs.startRun).toHaveBeenCalledOnce(), { timeout: 60_000 });
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
