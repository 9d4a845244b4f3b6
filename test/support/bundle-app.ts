/**
 * Bundles the app and `golem` for the tests, which start them about a hundred times, as `npm run build` does. But Zod does not compile its
 * schemas in this bundle: that takes a tenth of the CPU of an app that plays one story. Prints their paths and that of the folder
 * for what Node compiles. Rebuilds it only if a module has changed.
 */
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
const folder = `${root}node_modules/.cache/golem-forge`;
const compileCache = `${folder}/compile-cache`;
const unusedMs = 60 * 60_000;

const bundler = `${root}scripts/bundle.ts`;
const inputs = [
  ...globSync(`${root}src/**/*.{ts,js}`),
  `${root}package-lock.json`,
  bundler,
  fileURLToPath(import.meta.url),
];
const state = inputs.sort().map((file) => `${file} ${statSync(file).mtimeMs}`);
const bundle = `${folder}/${createHash("sha256").update(state.join("\n")).digest("hex").slice(0, 16)}`;
if (!existsSync(bundle)) await bundleApp();
// Another test run may still load files of an older bundle.
mkdirSync(compileCache, { recursive: true });
for (const used of [bundle, compileCache]) utimesSync(used, new Date(), new Date());
for (const name of readdirSync(folder)) {
  if (Date.now() - statSync(`${folder}/${name}`).mtimeMs > unusedMs) rmSync(`${folder}/${name}`, { recursive: true });
}
process.stdout.write(JSON.stringify({ app: `${bundle}/main.cjs`, golem: `${bundle}/golem.cjs`, compileCache }));

async function bundleApp(): Promise<void> {
  const { writeBundle } = await import("../../scripts/bundle.ts");
  const draft = `${folder}/draft-${process.pid}`;
  // Runs before Zod is loaded: the entry imports almost everything dynamically.
  const banner = "globalThis.__zod_globalConfig = { jitless: true };";
  await writeBundle({
    entries: { main: `${root}src/main.ts`, golem: `${root}src/terminal/golem.ts` },
    folder: draft,
    banner,
  });
  try {
    renameSync(draft, bundle);
  } catch (error) {
    // Another test run may have written the same bundle.
    if (!existsSync(bundle)) throw error;
    rmSync(draft, { recursive: true });
  }
}
