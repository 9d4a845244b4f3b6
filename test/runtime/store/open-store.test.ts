import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";

test("a deployment with SQLite never loads the PostgreSQL driver", async () => {
  const program = `
    import { createRequire } from "node:module";
    import { openStore } from "#runtime/store/open-store.ts";
    const { store } = await openStore({ kind: "sqlite", path: ":memory:" }, { onError: () => {} });
    await store.ping();
    const loaded = Object.keys(createRequire(import.meta.url).cache);
    console.log(JSON.stringify(loaded.filter((path) => /node_modules\\/pg/.test(path))));
    await import("#runtime/store/postgres/open-postgres-store.ts");
    console.log(Object.keys(createRequire(import.meta.url).cache).some((path) => /node_modules\\/pg/.test(path)));
  `;
  const child = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);

  expect(child.stdout.trim().split("\n")).toEqual(["[]", "true"]);
});
