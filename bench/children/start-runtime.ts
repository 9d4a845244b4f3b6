import { defaultPolicy } from "../../src/config/deployment-policy.ts";
import { createModels } from "../../src/models/create-models.ts";
import { createRuntime } from "../../src/runtime/create-runtime.ts";
import type { FrontEnd } from "../../src/runtime/front-end.ts";
import { openWorkerCatalog } from "../../src/runtime/start/worker-catalog.ts";
import { openSqliteStore } from "../../src/runtime/store/sqlite/open-sqlite-store.ts";
import { collectGarbage } from "../collect-garbage.ts";

// Starts the runtime over a database, in a separate process, and prints the time and the memory it took.

const [path = ""] = process.argv.slice(2);
const unused = new Proxy({} as FrontEnd, {
  get: () => () => {
    throw new Error("The benchmark posts nothing");
  },
});
const catalog = await openWorkerCatalog(new URL("../../workers", import.meta.url).pathname);

const startedAt = performance.now();
const store = await openSqliteStore(path);
const runtime = createRuntime({
  store,
  models: createModels({
    default: undefined,
    anthropic: { apiKey: undefined, baseUrl: undefined },
    openai: { apiKey: undefined, baseUrl: undefined },
    google: { apiKey: undefined },
    compatible: { apiKey: undefined, baseUrl: undefined },
  }),
  catalog,
  openGitHub: () => {
    throw new Error("The benchmark sends nothing to GitHub");
  },
  frontEnd: unused,
  services: { sanitize: (text) => text },
  approvalMs: 60_000,
  statusIntervalMs: 0,
  policy: defaultPolicy,
  runsPerHour: { person: 20, repository: 100 },
  onError: (error) => {
    throw error;
  },
});
await runtime.start();
await runtime.idle();
const startMs = performance.now() - startedAt;

collectGarbage();
process.stdout.write(JSON.stringify({ startMs, memoryMb: process.memoryUsage().rss / 1_048_576 }));
await runtime.shutDown(1_000);
await store.close();
