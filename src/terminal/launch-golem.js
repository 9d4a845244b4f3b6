#!/usr/bin/env node
// What npm links as `golem`. The node in somebody's PATH may not run TypeScript; the one beside this package does.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const golem = new URL("./golem.ts", import.meta.url);

function findNode() {
  try {
    return createRequire(import.meta.url).resolve("node/bin/node");
  } catch {
    process.stderr.write(`golem needs Node 24 or newer, and this is ${process.version}.\n`);
    return process.exit(2);
  }
}

if (process.features.typescript) await import(golem.href);
else {
  const child = spawn(findNode(), [fileURLToPath(golem), ...process.argv.slice(2)], { stdio: "inherit" });
  // A terminal tells both; told twice, it would be an interruption of the interruption.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code) => process.exit(code ?? 1));
}
