/**
 * Builds the npm package into `dist/`: JavaScript with declarations, since Node does not strip types below
 * `node_modules`. Types are stripped in place, so that line numbers stay the same and no source map is needed. The app and
 * the command `golem` start from bundles.
 *
 * usage: node scripts/build.ts; npm pack ./dist
 */
import { execFileSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeBundle } from "./bundle.ts";

const root = fileURLToPath(new URL("../", import.meta.url));
const target = join(root, "dist");

/** Import specifiers and module addresses of our own files, which end in `.ts` in the source. */
const ownModule = /((?:from|import\(?|new URL\()\s*)"((?:\.{1,2}\/|#)[^"]+)\.ts"/g;

const toJavaScript = (source: string) => source.replace(ownModule, '$1"$2.js"');

rmSync(target, { recursive: true, force: true });
process.removeAllListeners("warning");
for (const folder of ["src", "workers", "evals", "app.yml", "README.md", "CHANGELOG.md", "LICENSE"]) {
  cpSync(join(root, folder), join(target, folder), { recursive: true, filter: (path) => !path.endsWith(".ts") });
}
for (const file of globSync("src/**/*.{ts,js}", { cwd: root })) {
  const source = readFileSync(join(root, file), "utf8");
  write(file.replace(/\.ts$/, ".js"), toJavaScript(file.endsWith(".ts") ? stripTypeScriptTypes(source) : source));
}

execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", "scripts/tsconfig.build.json"], {
  cwd: root,
  stdio: "inherit",
});
for (const file of globSync("**/*.d.ts", { cwd: target })) {
  write(file, toJavaScript(readFileSync(join(target, file), "utf8")));
}

const {
  devDependencies: _,
  scripts: __,
  knip: ___,
  allowScripts: ____,
  private: _____,
  imports: { "#playground/*": ______, ...imports },
  ...manifest
} = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const exported = Object.entries<string>(manifest.exports).map(([name, file]) => [
  name,
  file.endsWith(".ts") ? { types: file.replace(/\.ts$/, ".d.ts"), default: file.replace(/\.ts$/, ".js") } : file,
]);
// For provenance, npm requires the repository of the workflow that publishes the package.
const { GITHUB_SERVER_URL, GITHUB_REPOSITORY } = process.env;
const packed = {
  ...manifest,
  imports,
  exports: Object.fromEntries(exported),
  engines: { node: ">=24" },
  ...(GITHUB_REPOSITORY && {
    repository: { type: "git", url: `git+${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}.git` },
  }),
};
write("package.json", `${JSON.stringify(packed, null, 2)}\n`);

const main = join(target, "src/main.js");
const golem = join(target, "src/terminal/golem.js");
await writeBundle({ entries: { main, golem }, folder: join(target, "bundle") });
writeFileSync(main, 'import "../bundle/main.cjs";\n');
writeFileSync(golem, 'import "../../bundle/golem.cjs";\n');

function write(file: string, content: string): void {
  mkdirSync(dirname(join(target, file)), { recursive: true });
  writeFileSync(join(target, file), content);
}
