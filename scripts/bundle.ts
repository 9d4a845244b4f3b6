import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { rolldown } from "rolldown";

export interface BundleOptions {
  /** The modules to start, by the names of their bundles. */
  entries: Record<string, string>;
  /** The folder to write to. */
  folder: string;
  /** Code that runs before the modules of an entry. */
  banner?: string;
}

/**
 * Bundles programs with their packages: Node needs twice the CPU to resolve and load the modules one by one. Modules that
 * are loaded at first use stay in files of their own. They are CommonJS, which Node starts with a tenth less CPU: an import
 * evaluates all exports of a Node module, including those that load others. The licenses of the bundled packages are written
 * next to them.
 */
export async function writeBundle({ entries, folder, banner = "" }: BundleOptions): Promise<void> {
  const build = await rolldown({
    input: entries,
    platform: "node",
    logLevel: "silent",
    // The crash tests replace parts of pg in the running app.
    external: [/^node:/, "pg"],
    plugins: [{ name: "addresses-of-the-source", transform: (code, id) => withOwnAddress(code, id, folder) }],
  });
  const { output } = await build.write({
    dir: folder,
    format: "cjs",
    strict: true,
    entryFileNames: "[name].cjs",
    chunkFileNames: "[name]-[hash].cjs",
    banner: ({ isEntry }) => (isEntry ? banner : ""),
  });
  const modules = output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
  writeFileSync(join(folder, "LICENSES.txt"), licensesOf(modules));
}

/** Our own modules find files and child programs by their address, which is another one in the bundle. */
function withOwnAddress(code: string, id: string, folder: string): string | undefined {
  if (id.includes("/node_modules/") || !code.includes("import.meta.url")) return undefined;
  return code.replaceAll("import.meta.url", `new URL(${JSON.stringify(relative(folder, id))}, import.meta.url).href`);
}

function licensesOf(modules: readonly string[]): string {
  const packages = new Set(modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id)?.[0] ?? []));
  return [...packages].map(licenseOf).sort().join("\n\n");
}

function licenseOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const files = globSync("{LICENSE,LICENCE,License,license}*", { cwd: folder });
  const texts = files.map((file) => readFileSync(join(folder, file), "utf8").trim());
  return [`${name} ${version} (${license})`, ...texts].join("\n\n");
}
