import { expect, test } from "vitest";
import type { Base } from "#sandbox/base.ts";
import { createBaseCache } from "#sandbox/base-cache.ts";

const base = (bytes: number) => ({ bytes: () => bytes }) as Base;

test("the cache evicts the least recently used bases when it exceeds its size", async () => {
  const cache = createBaseCache(250);
  await cache.get("a", async () => base(100), undefined);
  await cache.get("b", async () => base(100), undefined);
  await cache.get("a", () => Promise.reject(new Error("it is there")), undefined);

  await cache.get("c", async () => base(100), undefined);

  expect(cache.bytes()).toBe(200);
  await cache.get("a", () => Promise.reject(new Error("a was let go")), undefined);
  await cache.get("c", () => Promise.reject(new Error("c was let go")), undefined);
});

test("a base that is still in use is shared after it was evicted", async () => {
  const cache = createBaseCache(10);
  const inUse = await cache.get("a", async () => base(100), undefined);
  expect(cache.bytes()).toBe(0);

  const again = await cache.get("a", () => Promise.reject(new Error("it is in use")), undefined);

  expect(again).toBe(inUse);
});

test("concurrent requests share one load, which is aborted when the last of them is", async () => {
  const cache = createBaseCache(1_000);
  const { promise: stopped, resolve } = Promise.withResolvers<unknown>();
  const load = (signal: AbortSignal) =>
    new Promise<Base>((_, reject) => {
      signal.addEventListener("abort", () => {
        resolve(signal.reason);
        reject(signal.reason);
      });
    });
  const [one, two] = [new AbortController(), new AbortController()];
  const first = cache.get("a", load, one.signal);
  const second = cache.get("a", () => Promise.reject(new Error("there is a load already")), two.signal);

  one.abort("first");
  await expect(first).rejects.toBe("first");
  two.abort("second");
  await expect(second).rejects.toBe("second");

  expect(await stopped).toBe("second");
  expect(await cache.get("a", async () => base(1), undefined)).toBeDefined();
});

test("a failed load is retried by the next request", async () => {
  const cache = createBaseCache(1_000);
  await expect(cache.get("a", () => Promise.reject(new Error("outage")), undefined)).rejects.toThrow("outage");

  expect(await cache.get("a", async () => base(1), undefined)).toBeDefined();
});
