/**
 * Bundles the app for the tests, which start it about a hundred times: without the bundle, Node needs twice the CPU to
 * resolve and load its modules. What the app loads at first use is in files of its own. Zod does not compile its schemas
 * in the bundle: that takes a tenth of the CPU of an app that plays one story. Prints the path of the bundle. Rebuilds it
 * only if a module has changed.
 */
import { createHash } from "node:crypto";
import { existsSync, globSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
const folder = `${root}node_modules/.cache/golem-forge`;
const unusedMs = 60 * 60_000;

const inputs = [...globSync(`${root}src/**/*.{ts,js}`), `${root}package-lock.json`, fileURLToPath(import.meta.url)];
const state = inputs.sort().map((file) => `${file} ${statSync(file).mtimeMs}`);
const bundle = `${folder}/${createHash("sha256").update(state.join("\n")).digest("hex").slice(0, 16)}`;
if (!existsSync(bundle)) await writeBundle();
// Another test run may still load files of an older bundle.
utimesSync(bundle, new Date(), new Date());
for (const name of readdirSync(folder)) {
  if (Date.now() - statSync(`${folder}/${name}`).mtimeMs > unusedMs) rmSync(`${folder}/${name}`, { recursive: true });
}
process.stdout.write(`${bundle}/main.mjs`);

async function writeBundle(): Promise<void> {
  const { rolldown } = await import("rolldown");
  const build = await rolldown({
    input: `${root}src/main.ts`,
    platform: "node",
    logLevel: "silent",
    // The crash tests replace parts of pg in the running app.
    external: [/^node:/, "pg"],
    plugins: [
      {
        name: "addresses-of-the-source",
        transform: (code, id) => code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href)),
      },
    ],
  });
  const draft = `${folder}/draft-${process.pid}`;
  await build.write({
    dir: draft,
    format: "esm",
    entryFileNames: "[name].mjs",
    chunkFileNames: "[name]-[hash].mjs",
    // Runs before Zod is loaded: the entry imports almost everything dynamically.
    banner: ({ isEntry }) => (isEntry ? "globalThis.__zod_globalConfig = { jitless: true };" : ""),
  });
  try {
    renameSync(draft, bundle);
  } catch (error) {
    // Another test run may have written the same bundle.
    if (!existsSync(bundle)) throw error;
    rmSync(draft, { recursive: true });
  }
}
