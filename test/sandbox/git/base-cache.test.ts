import { expect, test } from "vitest";
import type { Base } from "#sandbox/git/base.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { type BaseRequest, createBaseCache } from "#sandbox/git/open-base.ts";

const base = (bytes: number, store = new ObjectStore()) => ({ bytes: () => bytes, store }) as Base;

const request = (commit: string, load: BaseRequest["load"], signal?: AbortSignal): BaseRequest => ({
  repository: "octo/demo",
  commit,
  load,
  signal,
});

test("the cache evicts the least recently used bases when it exceeds its size", async () => {
  const cache = createBaseCache(250);
  await cache.get(request("a", async () => base(100)));
  await cache.get(request("b", async () => base(100)));
  await cache.get(request("a", () => Promise.reject(new Error("it is there"))));

  await cache.get(request("c", async () => base(100)));

  expect(cache.bytes()).toBe(200);
  await cache.get(request("a", () => Promise.reject(new Error("a was let go"))));
  await cache.get(request("c", () => Promise.reject(new Error("c was let go"))));
});

test("a base that is still in use is shared after it was evicted", async () => {
  const cache = createBaseCache(10);
  const inUse = await cache.get(request("a", async () => base(100)));
  expect(cache.bytes()).toBe(0);

  const again = await cache.get(request("a", () => Promise.reject(new Error("it is in use"))));

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
  const first = cache.get(request("a", load, one.signal));
  const second = cache.get(request("a", () => Promise.reject(new Error("there is a load already")), two.signal));

  one.abort("first");
  await expect(first).rejects.toBe("first");
  two.abort("second");
  await expect(second).rejects.toBe("second");

  expect(await stopped).toBe("second");
  expect(await cache.get(request("a", async () => base(1)))).toBeDefined();
});

test("a failed load is retried by the next request", async () => {
  const cache = createBaseCache(1_000);
  await expect(cache.get(request("a", () => Promise.reject(new Error("outage"))))).rejects.toThrow("outage");

  expect(await cache.get(request("a", async () => base(1)))).toBeDefined();
});
