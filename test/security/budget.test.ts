import { describe, expect, test } from "vitest";
import type { ModelReply } from "#playground/model/model-server.ts";
import { readable } from "#runtime/store/store.ts";
import { origin, type RuntimeWorldOptions, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();

const helper = "---\nname: helper\n---\nYou are the helper.";
const boss = (limits: string) =>
  `---\nname: boss\ntoolsets: { workers: { allowed: [helper] } }\nlimits: { ${limits} }\n---\nYou are the boss.`;
const workers = (limits: string) => ({
  ".github/workers/boss.worker": boss(limits),
  ".github/workers/helper.worker": helper,
});
const callsOf = (name: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({ name, args: { task: `part ${n}` } }));

/** The boss delegates all parts at once; each helper replies with `helperReply`. */
function delegates(count: number, helperReply: ModelReply): RuntimeWorldOptions["script"] {
  return ({ messages }) => {
    const who = /You are the (\w+)/.exec(JSON.stringify(messages[0]))?.[1] ?? "";
    const turn = messages.filter(({ role }) => role === "assistant").length;
    if (who !== "boss") return helperReply;
    return turn === 0 ? { calls: callsOf("helper", count) } : { text: "Done." };
  };
}

describe("child workers at the same time", () => {
  test("share the rest of their parent's budget, so that ten of them cannot spend it ten times", async () => {
    const { runs, waitUntilShown, store, runtime } = await world({
      script: delegates(10, { hang: true }),
      github: { files: workers("tokens: 100000, cost: 2") },
    });
    const { id } = await runs.startRun({ origin, worker: "boss", text: "please" });
    await waitUntilShown(({ view }) => view.children.filter(({ state }) => state === "callingModel").length === 10);

    const shares = (await store.childrenOf(id)).map((child) => readable(child).spec.worker.limits);
    expect(shares.reduce((sum, { tokens }) => sum + tokens, 0)).toBeLessThanOrEqual(100_000);
    expect(shares.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(2.000_001);
    expect(Math.min(...shares.map(({ tokens }) => tokens))).toBeGreaterThan(8_000);
    await runs.requestCancel(origin, { by: "ada" });
    await runtime.idle();
  });
});

describe("a model that is stuck", () => {
  const failing = { calls: [{ name: "read_file", args: { path: "nowhere.js" } }] };
  const reading = { calls: [{ name: "read_file", args: { path: "sum.js" } }] };

  test("a model is stopped when the same call has failed the same way four times, even if it read something in between", async () => {
    const { runs, ended, model } = await world({
      script: turns(failing, reading, failing, reading, failing, failing, failing, failing),
    });
    await runs.startRun({ origin, worker: "reviewer", text: "look" });

    expect((await ended()).outcome).toMatchObject({
      kind: "failed",
      reason: expect.stringMatching(/^The worker is stuck: it made the same call of read_file 4 times/),
    });
    expect(model.requests).toHaveLength(6);
  });

  test("a model is not stopped when it changed something in between, or tries something else each time", async () => {
    const change = (n: number) => ({ calls: [{ name: "write_file", args: { path: `new-${n}.js`, content: "x" } }] });
    const other = (n: number) => ({ calls: [{ name: "read_file", args: { path: `nowhere-${n}.js` } }] });
    const { runs, ended } = await world({
      script: turns(failing, failing, failing, change(1), failing, failing, ...[1, 2, 3, 4, 5].map(other), {
        text: "Done.",
      }),
    });
    await runs.startRun({ origin, worker: "fixer", text: "do it" });

    expect((await ended()).outcome).toEqual({ kind: "answered", text: "Done." });
  });
});

test("a conversation above the token limit is not sent, and the run says so", async () => {
  const files = { ".github/workers/small.worker": "---\nname: small\nmax_context_tokens: 500\n---\nHi." };
  const { runs, ended, model } = await world({ script: turns(), github: { files } });
  await runs.startRun({ origin, worker: "small", text: "word ".repeat(5_000) });

  expect((await ended()).outcome).toMatchObject({
    kind: "failed",
    reason: expect.stringContaining("longer than the 500 tokens that this worker's max_context_tokens allows"),
  });
  expect(model.requests).toHaveLength(0);
});
