import { localDispatch } from "../../src/runtime/scheduler/dispatch.ts";
import { openStore } from "../../src/runtime/store/open-store.ts";

// A process that the benchmark kills: it takes every run that has something to do, prints its id, and never finishes it.

const [kind = "", where = ""] = process.argv.slice(2);
const onError = (error: unknown) => {
  throw error;
};
const database =
  kind === "postgres"
    ? { kind: "postgres" as const, url: where, runsPerRepository: undefined }
    : { kind: "sqlite" as const, path: where };
const { store, dispatch = localDispatch() } = await openStore(database, { onError });
const wakeAll = async () => {
  for (const runId of await store.dueRuns(Date.now())) dispatch.wake(runId);
};
await dispatch.attach({
  process: (runId) => {
    process.stdout.write(`${runId}\n`);
    return new Promise(() => undefined);
  },
  notify: () => false,
  revokeLease: () => undefined,
  sweep: wakeAll,
});
await wakeAll();
process.stdout.write("ready\n");
setInterval(() => undefined, 60_000);
