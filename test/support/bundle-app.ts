/**
 * Bundles the app into one file for the tests, which start it about a hundred times: without the bundle, Node needs twice
 * the CPU to resolve and load its 1,250 modules. Prints the path of the bundle. Rebuilds it only if a module has changed.
 */
import { globSync, mkdirSync, renameSync, statSync, utimesSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
const folder = `${root}node_modules/.cache/golem-forge`;
const bundle = `${folder}/app.mjs`;
const started = new Date();

const inputs = [...globSync(`${root}src/**/*.{ts,js}`), `${root}package-lock.json`, fileURLToPath(import.meta.url)];
const writtenAt = statSync(bundle, { throwIfNoEntry: false })?.mtimeMs ?? 0;
if (inputs.some((file) => statSync(file).mtimeMs >= writtenAt)) await writeBundle();
process.stdout.write(bundle);

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
  mkdirSync(folder, { recursive: true });
  const draft = `${folder}/app-${process.pid}.mjs`;
  await build.write({ file: draft, format: "esm", codeSplitting: false });
  utimesSync(draft, started, started);
  renameSync(draft, bundle);
}
