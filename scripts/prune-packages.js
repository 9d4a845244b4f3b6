/**
 * Deletes what nothing loads from the installed packages, after `npm ci --omit=dev`: 140 MB of 460. Does nothing after an
 * installation for development. JavaScript, since Node 20 runs it.
 */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const unused = [
  /\.map$/,
  // The headers for native addons.
  /^node\/node_modules\/[^/]+\/(include|share)\//,
  // The Python of the in-memory shell, which is off.
  /^just-bash\/vendor\//,
  // sqlite3 of the in-memory shell loads sql-wasm.js.
  /^sql\.js\/dist\/(?!sql-wasm\.(js|wasm)$)/,
];

const packages = process.argv[2] ?? fileURLToPath(new URL("../node_modules", import.meta.url));
if ((process.env.npm_config_omit ?? "").split(/\s+/).includes("dev")) {
  for (const entry of readdirSync(packages, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    const name = path.slice(packages.length + 1).replaceAll("\\", "/");
    if (entry.isFile() && unused.some((part) => part.test(name))) rmSync(path);
  }
}
