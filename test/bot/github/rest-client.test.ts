import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { RestClient } from "#bot/github/rest-client.ts";

test("a token of the app follows GitHub's clock when the local one is wrong", async () => {
  const aheadSeconds = 3_600;
  const server = createServer(({ headers }, response) => {
    const date = new Date(Date.now() + aheadSeconds * 1_000).toUTCString();
    const isAccepted = Math.abs(Number(headers.authorization?.replace("Bearer ", "")) - aheadSeconds) < 60;
    const message = "'Expiration time' claim ('exp') must be a numeric value representing the future time";
    response.writeHead(isAccepted ? 200 : 401, { date, "content-type": "application/json" });
    response.end(JSON.stringify(isAccepted ? { slug: "golem-forge" } : { message }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const warnings: string[] = [];
  const rest = new RestClient({
    apiUrl: `http://127.0.0.1:${port}`,
    createAppToken: async (clockOffset) => String(clockOffset),
    warn: (message) => warnings.push(message),
  });

  const responses = [await rest.send({ route: "GET /app" }), await rest.send({ route: "GET /app" })];

  expect(responses.map(({ data }) => data)).toEqual([{ slug: "golem-forge" }, { slug: "golem-forge" }]);
  expect(warnings).toEqual([
    expect.stringMatching(/^The clock of this machine differs from GitHub's by 3\d\d\d seconds/),
  ]);
});
