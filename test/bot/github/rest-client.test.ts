import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { RestClient } from "#bot/github/rest-client.ts";
import { OutageError } from "#domain/errors.ts";

/** A client of a server that answers like this. */
async function clientOf(listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const warnings: string[] = [];
  const warn = (message: string) => void warnings.push(message);
  const createAppToken = async (clockOffset: number) => String(clockOffset);
  return { rest: new RestClient({ apiUrl: `http://127.0.0.1:${port}`, createAppToken, warn }), warnings };
}

test("a response that is cut off is an outage, and is not kept as the known one", async () => {
  let answers = 0;
  const { rest } = await clientOf(({ headers }, response) => {
    const status = headers["if-none-match"] ? 304 : 200;
    const text = JSON.stringify({ id: 1 });
    response.writeHead(status, { "content-type": "application/json", "content-length": text.length, etag: '"1"' });
    answers += 1;
    if (answers <= 2) response.write(text.slice(0, 3), () => response.destroy());
    else response.end(status === 304 ? undefined : text);
  });
  const read = () => rest.send({ route: "GET /repositories/1", token: "t", maxRetries: 0 });

  await expect(read()).rejects.toMatchObject({ status: 502 });
  await expect(rest.send({ route: "POST /repositories/1", token: "t" })).rejects.toMatchObject({ status: 502 });

  expect([(await read()).data, (await read()).data]).toEqual([{ id: 1 }, { id: 1 }]);
});

/**
 * A client of a GitHub whose clock is an hour ahead of the local one, which is set back by another one after each of
 * some requests. The first responses are sent once this many requests have arrived.
 */
function clientOfGitHubAhead({ concurrent = 1, clockChanges = 0 } = {}) {
  let aheadSeconds = 3_600;
  let requests = 0;
  const { promise: allArrived, resolve } = Promise.withResolvers<void>();
  return clientOf(async ({ headers }, response) => {
    requests += 1;
    if (requests === concurrent) resolve();
    await allArrived;
    const date = new Date(Date.now() + aheadSeconds * 1_000).toUTCString();
    const isAccepted = Math.abs(Number(headers.authorization?.replace("Bearer ", "")) - aheadSeconds) < 60;
    if (requests <= clockChanges) aheadSeconds += 3_600;
    const message = "'Expiration time' claim ('exp') must be a numeric value representing the future time";
    response.writeHead(isAccepted ? 200 : 401, { date, "content-type": "application/json" });
    response.end(JSON.stringify(isAccepted ? { slug: "golem-forge" } : { message }));
  });
}

test("a token of the app follows GitHub's clock when the local one is wrong", async () => {
  const { rest, warnings } = await clientOfGitHubAhead();

  const responses = [await rest.send({ route: "GET /app" }), await rest.send({ route: "GET /app" })];

  expect(responses.map(({ data }) => data)).toEqual([{ slug: "golem-forge" }, { slug: "golem-forge" }]);
  expect(warnings).toEqual([
    expect.stringMatching(/^The clock of this machine differs from GitHub's by 3\d\d\d seconds/),
  ]);
});

test("requests that GitHub rejects at the same time, because the local clock is wrong, are all sent again", async () => {
  const { rest } = await clientOfGitHubAhead({ concurrent: 3 });

  const responses = await Promise.all(Array.from({ length: 3 }, () => rest.send({ route: "GET /app" })));

  expect(responses.map(({ data }) => data)).toEqual(Array(3).fill({ slug: "golem-forge" }));
});

test("a request is sent a third time if the local clock is set while the second is sent", async () => {
  const { rest } = await clientOfGitHubAhead({ clockChanges: 1 });

  expect((await rest.send({ route: "GET /app" })).data).toEqual({ slug: "golem-forge" });
});

test("a request is postponed, not refused, while GitHub rejects the time of this machine", async () => {
  const { rest } = await clientOfGitHubAhead({ clockChanges: 3 });

  await expect(rest.send({ route: "GET /app" })).rejects.toThrow(OutageError);

  expect((await rest.send({ route: "GET /app" })).data).toEqual({ slug: "golem-forge" });
});
