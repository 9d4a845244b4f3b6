import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { startTelemetry } from "#telemetry/start-telemetry.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

/** Starts telemetry, and a server that is busy for this long before it answers a scrape. */
async function scrapedServer(
  busyMs: number,
  metrics?: { intervalMs: number },
): Promise<{ scrape(): Promise<(series: string) => number> }> {
  const metricsToken = "a-token-of-the-scraper";
  const telemetry = await startTelemetry({
    config: { metricsToken, traces: undefined, metrics },
    store: openMemoryStore(),
    rateLimits: () => [],
    costPerDay: 10,
    redact: (text) => text,
    onError: (error) => {
      throw error;
    },
  });
  const server = createServer((request, response) => {
    const until = performance.now() + busyMs;
    while (performance.now() < until);
    telemetry.answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await telemetry.shutDown();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`;
  return {
    async scrape() {
      const answer = await fetch(url, { headers: { authorization: `Bearer ${metricsToken}` } });
      const lines = (await answer.text()).split("\n");
      return (series) =>
        Number(
          lines
            .find((line) => line.startsWith(`${series} `))
            ?.split(" ")
            .at(-1),
        );
    },
  };
}

test("a scrape right after the event loop was blocked reports it, and an idle event loop has no delay", async () => {
  const { scrape } = await scrapedServer(1_000);
  const intervals = monitorEventLoopDelay({ resolution: 20 });
  intervals.enable();
  await pause(500);
  intervals.disable();

  const sample = await scrape();

  expect(sample('golem_forge_event_loop_delay_seconds{quantile="1"}')).toBeGreaterThan(0.9);
  expect(sample('golem_forge_event_loop_delay_seconds{quantile="0.5"}')).toBeLessThan(
    intervals.percentile(50) / 1e9 - 0.01,
  );
});

test("a delay of the event loop that an export has reported is also in the next scrape", async () => {
  let exports = 0;
  const collector = createServer((request, response) => {
    if (request.url === "/v1/metrics") exports += 1;
    request.resume().on("end", () => response.end());
  });
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void collector.close());
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", `http://127.0.0.1:${(collector.address() as AddressInfo).port}`);
  const { scrape } = await scrapedServer(0, { intervalMs: 100 });
  const exported = async () => {
    const before = exports;
    await vi.waitUntil(() => exports > before + 1, { timeout: 60_000 });
  };

  await exported();
  const until = performance.now() + 1_000;
  while (performance.now() < until);
  // The next period of ten seconds begins with each of these exports.
  const now = performance.now.bind(performance);
  for (const ahead of [11_000, 22_000]) {
    vi.spyOn(performance, "now").mockImplementation(() => now() + ahead);
    await exported();
  }
  const sample = await scrape();

  expect(sample('golem_forge_event_loop_delay_seconds{quantile="1"}')).toBeGreaterThan(0.9);
});

test("cost warnings are counted from 0, so that the first one is an increase", async () => {
  const { scrape } = await scrapedServer(0);

  const sample = await scrape();

  expect(sample('golem_forge_cost_warnings_total{scope="repository"}')).toBe(0);
  expect(sample('golem_forge_cost_warnings_total{scope="total"}')).toBe(0);
});
