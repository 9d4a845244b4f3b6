import { afterAll, beforeAll, expect, test } from "vitest";
import { runChecks } from "#setup/doctor.ts";
import { startForge } from "../support/forge-world.ts";

let forge: Awaited<ReturnType<typeof startForge>>;
beforeAll(async () => {
  forge = await startForge({ script: () => ({ text: "OK" }) });
  await forge.start();
});
afterAll(() => forge.close());

async function check(change: Record<string, string> = {}, callModel = false) {
  const results = [];
  const environment = { ...forge.environment, ...change };
  for await (const result of runChecks(environment, { callModel, deliveryTimeoutMs: 5_000 })) results.push(result);
  return results;
}

test("a deployment that works has no problem, its webhook included", async () => {
  await forge.github.as("maintainer").openIssue({ title: "Something to deliver", body: "" });
  await forge.github.deliveriesSettled();

  const results = await check({}, true);

  expect(results.filter(({ status }) => status === "problem")).toEqual([]);
  expect(results.find(({ name }) => name === "Webhook")).toMatchObject({
    status: "ok",
    detail: expect.stringContaining("answered a issues delivery with"),
  });
});

test("settings that are missing are all named, and nothing else is tried", async () => {
  const results = await check({ APP_ID: "", WEBHOOK_SECRET: "" });

  expect(results).toHaveLength(1);
  expect(results[0]).toMatchObject({ name: "Settings", status: "problem" });
  expect(results[0]?.detail).toMatch(/APP_ID is not set[\s\S]*WEBHOOK_SECRET is not set/);
});

test("an App id that GitHub refuses is told from a GitHub that cannot be reached", async () => {
  const refused = (await check({ APP_ID: "8" })).find(({ name }) => name === "GitHub App");
  const unreachable = (await check({ GHE_HOST: "127.0.0.1:1" })).find(({ name }) => name === "GitHub App");

  expect(refused?.detail).toContain("GitHub does not accept App 8");
  expect(unreachable?.detail).toContain("cannot be reached");
});

test("a webhook that answers nothing is a problem with a way to fix it", async () => {
  const results = await check({ WEBHOOK_PATH: "/elsewhere" });

  expect(results.find(({ name }) => name === "Webhook")).toMatchObject({
    status: "problem",
    fix: "Correct the webhook URL on the App's settings page, or WEBHOOK_PATH.",
  });
});
