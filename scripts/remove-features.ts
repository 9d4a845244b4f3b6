/**
 * Takes features of docs/features.md out, one at a time, and checks that the test that the feature names fails. Prints the
 * features whose test noticed nothing, and ends with exit code 1 if there are any.
 *
 * usage: npm run features -- [text]
 *
 * With a text, only features that contain it are taken out. The files are changed in place and restored.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { removals } from "./feature-removals.ts";

const [wanted = ""] = process.argv.slice(2);
const rows = readFileSync("docs/features.md", "utf8").matchAll(/^\| [^|]+ \| (.+) \| (test\/\S+) › (.+) \|$/gm);
const proofs = [...rows].map(([, feature = "", file = "", title = ""]) => ({ feature, file, title }));

/** Returns the pattern that `vitest -t` needs for a title, in which `%s` and `$name` stand for values. */
function patternOf(title: string): string {
  return title
    .split(/%[a-z]|\$\w+/)
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    .join(".*");
}

/** True if the test fails without the feature. Throws if the code to change is not there exactly once. */
function isNoticed({ file, code, without }: (typeof removals)[number], proof: (typeof proofs)[number]): boolean {
  const source = readFileSync(file, "utf8");
  if (source.split(code).length !== 2) throw new Error(`${file} does not have this once: ${code}`);
  const restore = () => writeFileSync(file, source);
  process.once("exit", restore);
  process.once("SIGINT", () => process.exit(130));
  try {
    writeFileSync(
      file,
      source.replace(code, () => without),
    );
    const env = { ...process.env, GOLEM_FORGE_MUTATION_TESTS: proof.file };
    const { status, error } = spawnSync("node_modules/.bin/vitest", ["run", "-t", patternOf(proof.title)], { env });
    if (error) throw error;
    return status !== 0;
  } finally {
    restore();
    process.off("exit", restore);
    process.removeAllListeners("SIGINT");
  }
}

const unnoticed: string[] = [];
const chosen = removals.filter(({ feature }) => feature.includes(wanted));
for (const removal of chosen) {
  const proof = proofs.find(({ feature }) => feature.startsWith(removal.feature));
  if (!proof) throw new Error(`docs/features.md has no feature that begins with: ${removal.feature}`);
  const noticed = isNoticed(removal, proof);
  console.log(`${noticed ? "noticed  " : "UNNOTICED"} ${removal.feature}`);
  if (!noticed) unnoticed.push(removal.feature);
}
console.log(`${chosen.length - unnoticed.length} of ${chosen.length} tests fail when their feature is taken out.`);
process.exitCode = unnoticed.length > 0 ? 1 : 0;
