/**
 * Removes features of docs/features.md from the code, one at a time, and checks that the test listed for the feature fails.
 * Prints the features whose test still passes, and exits with 1 if there are any.
 *
 * usage: npm run features -- [text]
 *
 * With a text, only removes features that contain it. The files are changed in place and restored.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { removals } from "./feature-removals.ts";

const [wanted = ""] = process.argv.slice(2);
const rows = readFileSync("docs/features.md", "utf8").matchAll(/^\| [^|]+ \| (.+) \| (test\/\S+) › (.+) \|$/gm);
const proofs = [...rows].map(([, feature = "", file = "", title = ""]) => ({ feature, file, title }));

/** Converts a test title to a pattern for `vitest -t`. Placeholders such as `%s` and `$name` match any text. */
function patternOf(title: string): string {
  return title
    .split(/%[a-z]|\$\w+/)
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    .join(".*");
}

/** True if the test fails without the feature. Throws unless the file contains the code to remove exactly once. */
function failsWithout({ file, code, without }: (typeof removals)[number], proof: (typeof proofs)[number]): boolean {
  const source = readFileSync(file, "utf8");
  if (source.split(code).length !== 2) throw new Error(`${file} does not contain this code exactly once: ${code}`);
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

const untested: string[] = [];
const chosen = removals.filter(({ feature }) => feature.includes(wanted));
for (const removal of chosen) {
  const proof = proofs.find(({ feature }) => feature.startsWith(removal.feature));
  if (!proof) throw new Error(`docs/features.md has no feature that begins with: ${removal.feature}`);
  const failed = failsWithout(removal, proof);
  console.log(`${failed ? "test failed" : "TEST PASSED"}  ${removal.feature}`);
  if (!failed) untested.push(removal.feature);
}
console.log(`${chosen.length - untested.length} of ${chosen.length} tests fail when their feature is removed.`);
process.exitCode = untested.length > 0 ? 1 : 0;
