import fc from "fast-check";
import { expect, test } from "vitest";
import type { Store } from "#runtime/store/store.ts";
import { said, sampleEffect, sampleRun, sampleStep } from "./store-samples.ts";

/** A simple reference model of the store. */
interface ModelRun {
  version: number;
  done: boolean;
  seen: number;
  log: string[];
  /** Positions in the log. */
  inbox: number[];
  effects: { key: string; dueAt: number; attempts: number }[];
}

interface Model {
  runs: Map<string, ModelRun>;
  deliveries: Set<string>;
  now: number;
  count: number;
}

interface World {
  store: Store;
  model: Model;
}

interface Move {
  name: string;
  play(world: World): Promise<void>;
}

const runIds = ["r1", "r2"];
const aRun = fc.constantFrom(...runIds);
const runOf = (model: Model, id: string) => model.runs.get(id) as ModelRun;
const wordOf = (event: { type: string; text?: string }) => event.text ?? event.type;

function ingest(id: string, delivery: number, words: number): Move {
  return {
    name: `ingest ${words} events into ${id} with delivery ${delivery}`,
    play: async ({ store, model }) => {
      const deliveryId = `d${delivery}`;
      const isNew = !model.deliveries.has(deliveryId);
      const texts = Array.from({ length: words }, () => `word ${model.count++}`);
      const events = texts.map((text) => ({ runId: id, event: said(text) }));
      expect(await store.ingest({ deliveryId, events })).toBe(isNew);
      if (!isNew) return;

      model.deliveries.add(deliveryId);
      const run = runOf(model, id);
      for (const text of texts) run.inbox.push(run.log.push(text) - 1);
    },
  };
}

function advance(id: string, options: { takes: boolean[]; stale: boolean; done: boolean; dueIn: number }): Move {
  return {
    name: `advance ${id} ${JSON.stringify(options)}`,
    play: async ({ store, model }) => {
      const run = runOf(model, id);
      const inbox = await store.inbox(id);
      const taken = inbox.filter((_, index) => options.takes[index % options.takes.length]);
      const key = `effect ${model.count++}`;
      const dueAt = model.now + options.dueIn;
      const step = sampleStep(id, {
        version: options.stale ? run.version - 1 : run.version,
        consumed: taken.map((event) => event.id),
        seen: inbox.at(-1)?.id ?? 0,
        status: options.done ? "done" : "waiting",
        effects: [sampleEffect(id, key, { dueAt }), sampleEffect(id, key)],
      });
      expect(await store.advance(step)).toBe(!options.stale);
      if (options.stale) return;

      const words = taken.map(({ event }) => wordOf(event));
      run.inbox = run.inbox.filter((position) => !words.includes(run.log[position] ?? ""));
      run.version++;
      run.seen = run.log.length;
      run.done = options.done;
      run.effects.push({ key, dueAt, attempts: 0 });
    },
  };
}

function begin(id: string): Move {
  return {
    name: `begin ${id}`,
    play: async ({ store, model }) => {
      const head = runOf(model, id).effects[0];
      const expected = head && head.dueAt <= model.now ? head : undefined;
      if (expected) expected.attempts++;

      const begun = await store.claimEffect(id, "work", model.now);
      expect(begun && { key: begun.key, dueAt: begun.dueAt, attempts: begun.attempts }).toEqual(expected);
    },
  };
}

function finish(id: string, position: number): Move {
  return {
    name: `finish ${id} ${position}`,
    play: async ({ store, model }) => {
      const run = runOf(model, id);
      const effect = run.effects[position];
      const text = `word ${model.count++}`;
      const event = { runId: id, event: said(text), dedupe: effect?.key ?? "none" };
      expect(await store.completeEffect({ runId: id, key: effect?.key ?? "none", events: [event] })).toBe(
        effect !== undefined,
      );
      if (!effect) return;

      run.effects.splice(position, 1);
      run.inbox.push(run.log.push(text) - 1);
    },
  };
}

function postpone(id: string, dueIn: number): Move {
  return {
    name: `postpone ${id} by ${dueIn}`,
    play: async ({ store, model }) => {
      const head = runOf(model, id).effects[0];
      if (head) head.dueAt = model.now + dueIn;
      await store.postponeEffect({ runId: id, key: head?.key ?? "none" }, model.now + dueIn);
    },
  };
}

function wait(ms: number): Move {
  return {
    name: `wait ${ms}`,
    play: async ({ model }) => {
      model.now += ms;
    },
  };
}

const aMove = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(aRun, fc.nat(30), fc.nat(3)).map((values) => ingest(...values)) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(
        aRun,
        fc.record({
          takes: fc.array(fc.boolean(), { minLength: 1, maxLength: 3 }),
          stale: fc.nat(4).map((n) => n === 0),
          done: fc.nat(4).map((n) => n === 0),
          dueIn: fc.constantFrom(0, 0, 20),
        }),
      )
      .map((values) => advance(...values)),
  },
  { weight: 3, arbitrary: aRun.map(begin) },
  { weight: 3, arbitrary: fc.tuple(aRun, fc.nat(2)).map((values) => finish(...values)) },
  { weight: 1, arbitrary: fc.tuple(aRun, fc.constantFrom(0, 10)).map((values) => postpone(...values)) },
  { weight: 1, arbitrary: fc.constantFrom(5, 15).map(wait) },
);

async function expectSame({ store, model }: World): Promise<void> {
  const due = runIds.filter((id) => {
    const { log, seen, effects } = runOf(model, id);
    return log.length > seen || (effects[0] !== undefined && effects[0].dueAt <= model.now);
  });
  expect((await store.dueRuns(model.now)).sort()).toEqual(due);

  for (const id of runIds) {
    const run = runOf(model, id);
    expect((await store.log(id)).map(({ event }) => wordOf(event))).toEqual(run.log);
    expect((await store.inbox(id)).map(({ event }) => wordOf(event))).toEqual(run.inbox.map((at) => run.log[at]));
    expect(await store.findRun(id)).toMatchObject({ version: run.version });
  }
}

/** Plays this number of random stories against a store and its reference model. `open` returns an empty store. */
export function storeModel(name: string, open: () => Promise<Store>, stories: number): void {
  test(`${name} behaves like the model for any sequence of calls`, async () => {
    const someMoves = fc.array(aMove, { minLength: 1, maxLength: 40 });

    await fc.assert(
      fc.asyncProperty(someMoves, async (moves) => {
        const store = await open();
        const model: Model = { runs: new Map(), deliveries: new Set(), now: 1_000, count: 0 };
        for (const id of runIds) {
          await store.ingest({ run: sampleRun(id), events: [] });
          model.runs.set(id, { version: 0, done: false, seen: 0, log: [], inbox: [], effects: [] });
        }

        for (const move of moves) {
          await move.play({ store, model });
          await expectSame({ store, model });
        }
        await store.close();
      }),
      { numRuns: stories },
    );
  });
}
