import { describe, expect, test } from "vitest";
import { Limits, parseWorker } from "#domain/worker.ts";
import { initialRun } from "#runtime/apply-events.ts";
import { childSpec } from "#runtime/effects/children.ts";
import type { RunRow } from "#runtime/store/store.ts";
import { sampleRun } from "../../support/store-samples.ts";

const worker = parseWorker("---\nname: helper\n---\nHelp.", "helper.worker");

/** A run with these limits, used tokens and open worker calls. */
function parentOf(limits: object, { calls, tokens = 0 }: { calls: number; tokens?: number }): RunRow {
  const { spec } = sampleRun("parent");
  const own = { ...spec, worker: { ...spec.worker, limits: Limits.parse(limits) } };
  const { snapshot } = initialRun(own);
  const open = Array.from({ length: calls }, (_, n) => ({
    callId: `call-${n}`,
    tool: "helper",
    answeredBy: "worker" as const,
    status: "running" as const,
  }));
  const context = { ...snapshot.context, tokens, openCalls: open };
  return {
    id: spec.id,
    rootId: spec.rootId,
    spec: own,
    status: "waiting",
    snapshot: { ...snapshot, context },
    version: 1,
    changeSets: 0,
    updatedAt: 0,
  };
}

function childOf(parent: RunRow, nth: number, siblings: RunRow[] = []): RunRow {
  const spec = childSpec(parent, {
    ...{ id: `child-${nth}`, callId: `call-${nth}`, worker, source: "deployment", model: "a:b", now: 0 },
    siblings,
    root: parent.spec,
  });
  return { ...parent, spec };
}

describe("the budget of a child", () => {
  test("is an equal share of what its parent has left, for each open call", () => {
    const parent = parentOf({ tokens: 100_000, cost: 1 }, { calls: 4, tokens: 20_000 });

    const children: RunRow[] = [];
    for (const nth of [0, 1, 2, 3]) children.push(childOf(parent, nth, [...children]));

    expect(children.map(({ spec }) => spec.worker.limits.tokens)).toEqual([20_000, 20_000, 20_000, 20_000]);
    expect(children.map(({ spec }) => spec.worker.limits.cost)).toEqual([0.25, 0.25, 0.25, 0.25]);
  });

  test("is its own limit where that is less, and the others share the rest", () => {
    const parent = parentOf({ tokens: 100_000, cost: 1 }, { calls: 2 });
    const frugal = childOf(parent, 0);
    frugal.spec = {
      ...frugal.spec,
      worker: { ...frugal.spec.worker, limits: Limits.parse({ tokens: 1_000, cost: 0.1 }) },
    };

    expect(childOf(parent, 1, [frugal]).spec.worker.limits.tokens).toBe(99_000);
  });

  test("is everything that is left when earlier children have ended", () => {
    const parent = parentOf({ tokens: 100_000 }, { calls: 1, tokens: 60_000 });
    const ended = { ...parent, spec: { ...parent.spec, parentCallId: "an earlier call" } };

    expect(childOf(parent, 0, [ended]).spec.worker.limits.tokens).toBe(40_000);
  });

  test("is refused when it would be too small, so that a tree cannot have a thousand children", () => {
    expect(() => childOf(parentOf({ tokens: 100_000 }, { calls: 101 }), 0)).toThrow(
      "remaining budget of this run is too small",
    );
    expect(() => childOf(parentOf({ tokens: 100_000 }, { calls: 1, tokens: 100_000 }), 0)).toThrow(
      "remaining budget of this run is too small",
    );
    expect(() => childOf(parentOf({ cost: 0.5 }, { calls: 101 }), 0)).toThrow(
      "remaining budget of this run is too small",
    );
  });
});
