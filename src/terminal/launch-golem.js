#!/usr/bin/env node
// The command that npm links as `golem`. If the Node in the PATH is too old, runs the one that npm installed with the checkout.
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

if (Number.parseInt(process.versions.node, 10) >= 24) await import(golem.href);
else {
  const child = spawn(findNode(), [fileURLToPath(golem), ...process.argv.slice(2)], { stdio: "inherit" });
  // The terminal sends SIGINT to both processes.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code) => process.exit(code ?? 1));
}
