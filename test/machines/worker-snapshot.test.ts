import { expect, test } from "vitest";
import { initialTransition } from "xstate";
import { parseVersioned, UnreadableDataError } from "#domain/stored-data.ts";
import { Limits } from "#domain/worker.ts";
import { workerMachine } from "#machines/worker-machine.ts";
import { snapshotVersion, WorkerSnapshot } from "#machines/worker-snapshot.ts";

const [{ value, context }] = initialTransition(workerMachine, { mode: "single", limits: Limits.parse({}) });
const stored = JSON.parse(
  JSON.stringify({ version: snapshotVersion, value, context, workedMs: 1_500, busySince: 1_000 }),
);

const parseSnapshot = (data: unknown) =>
  parseVersioned(WorkerSnapshot, data, { version: snapshotVersion, name: "The state" });

test("a stored snapshot is read back unchanged", () => {
  expect(parseSnapshot(stored)).toEqual(stored);
});

test("a snapshot of a newer release is refused by its version, with any other content", () => {
  const newer = { version: snapshotVersion + 1, value: "dreaming" };

  expect(() => parseSnapshot(newer)).toThrow(UnreadableDataError);
  expect(() => parseSnapshot(newer)).toThrow("was stored by a newer release of Golem Forge (format 2");
});

test.each([
  ["no version", { ...stored, version: undefined }, "version"],
  ["a state that does not exist", { ...stored, value: "dreaming" }, "value"],
  ["an unknown context field", { ...stored, context: { ...stored.context, mood: "good" } }, "context"],
  ["no object at all", null, "value"],
])("a snapshot with %s is refused with the field's name", (_, data, field) => {
  expect(() => parseSnapshot(data)).toThrow(UnreadableDataError);
  expect(() => parseSnapshot(data)).toThrow(`${field}:`);
});

test("a snapshot of an earlier release has the defaults of what it lacks", () => {
  const { hasBase, mismatches, isRoot, pausesAtCostLimit, isPullRequestClosed, wasPaused, checkRepairs, ...earlier } =
    stored.context;

  expect(parseSnapshot({ ...stored, context: earlier }).context).toMatchObject({
    hasBase: false,
    mismatches: 0,
    isRoot: true,
    pausesAtCostLimit: false,
    isPullRequestClosed: false,
    wasPaused: false,
    checkRepairs: 0,
  });
});
