/**
 * Mutation testing: changes the code of a room in one place at a time, and runs the room's fast tests against each change.
 * Prints each change that no test noticed as soon as it is known, and in the end each room's score: the share that was
 * noticed. A change to code that no test runs was not noticed. Writes reports to `reports/mutation`. Ends with exit code 1
 * when a score is below 85 %.
 *
 * usage: npm run mutate -- [room…] [--sample N] [--concurrency N]
 *
 * With --sample N, only one in N blocks of 20 lines is changed: always the same ones, chosen by the hash of their place.
 */
import { createHash } from "node:crypto";
import { glob, readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { Stryker } from "@stryker-mutator/core";

interface Room {
  /** Globs of the code to change. */
  code: string[];
  /** Globs of the tests that have to notice. Tests that start processes or servers would take too long. */
  tests: string[];
}

const rooms: Record<string, Room> = {
  machines: { code: ["src/machines/*.ts"], tests: ["test/machines/*.test.ts"] },
  domain: { code: ["src/domain/*.ts"], tests: ["test/domain/*.test.ts"] },
  approvals: {
    code: [
      "src/runtime/{approval-rules,decide-approvals,describe-feedback}.ts",
      "src/runtime/effects/{check-approval,review-calls,post-requests}.ts",
      "src/runtime/store/apply-decision.ts",
    ],
    tests: [
      "test/runtime/{approval-rules,decide-approvals,describe-feedback}.test.ts",
      "test/runtime/{effects/execute-tool,effects/post-requests,effects/review-calls,store/apply-decision}.test.ts",
    ],
  },
  runtime: {
    code: [
      "src/runtime/{apply-events,run-session,run-scheduler,cost-watch,read-log}.ts",
      "src/runtime/effects/{execute-tool,person-calls,children,post-to-thread,effect-handler}.ts",
    ],
    tests: [
      "test/runtime/*.test.ts",
      "test/runtime/{effects,model,start}/*.test.ts",
      "test/embed/{delegation,approvals}.test.ts",
    ],
  },
  redaction: {
    code: ["src/text/{redact,sanitize,visible-text}.ts"],
    tests: ["test/text/{redact,sanitize,untrusted,visible-text}.test.ts"],
  },
  sandbox: {
    code: ["src/sandbox/{push-changes,merge-branch,merge-file,zones}.ts"],
    tests: ["test/sandbox/{git-sandbox,push,find-renames,merge-file,zones,workspace,paths}.test.ts"],
  },
  store: {
    code: ["src/runtime/store/*.ts", "src/runtime/store/{memory,sqlite}/*.ts"],
    tests: [
      "test/runtime/store/{memory-store,sqlite-store,store-model,git-store,unreadable-data,unusable-database}.test.ts",
      "test/terminal/database-commands.test.ts",
    ],
  },
};

const minScore = 85;
const blockLines = 20;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { sample: { type: "string", default: "1" }, concurrency: { type: "string", default: "1" } },
});

const unknown = positionals.filter((name) => !(name in rooms));
if (unknown.length > 0) {
  console.error(`There is no room ${unknown.join(", ")}. The rooms: ${Object.keys(rooms).join(", ")}.`);
  process.exit(2);
}

const rows: string[] = [];
for (const [name, room] of Object.entries(rooms)) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  const { killed, mutants, score } = await mutate(name, room);
  rows.push(`| ${name} | ${killed} of ${mutants} | ${score.toFixed(1)} % |`);
  if (score < minScore) process.exitCode = 1;
}
console.log(`\n| room | mutants killed | score |\n|---|---|---|\n${rows.join("\n")}`);

async function mutate(name: string, { code, tests }: Room) {
  const report = `reports/mutation/${name}`;
  // Not as Stryker's option `testFiles`: with it, Stryker never activates mutants in code that runs when a module is loaded.
  process.env.GOLEM_FORGE_MUTATION_TESTS = tests.join(" ");
  const stryker = new Stryker({
    mutate: await blocksOf(code, Number(values.sample)),
    concurrency: Number(values.concurrency),
    htmlReporter: { fileName: `${report}.html` },
    jsonReporter: { fileName: `${report}.json` },
  });
  const results = await stryker.runMutationTest();
  const count = (...statuses: string[]) => results.filter(({ status }) => statuses.includes(status)).length;
  const killed = count("Killed", "Timeout");
  const mutants = killed + count("Survived", "NoCoverage");
  return { killed, mutants, score: mutants === 0 ? 100 : (100 * killed) / mutants };
}

/** Returns the files, or with `sample` above 1 the ranges of lines to change, as Stryker's option `mutate` takes them. */
async function blocksOf(globs: string[], sample: number): Promise<string[]> {
  const files = (await Array.fromAsync(glob(globs))).sort();
  if (sample === 1) return files;
  const blocks = await Promise.all(
    files.map(async (file) => {
      const lines = (await readFile(file, "utf8")).split("\n").length;
      const starts = Array.from({ length: Math.ceil(lines / blockLines) }, (_, index) => index * blockLines + 1);
      const chosen = starts.filter((line) => hash(`${file}:${line}`) % sample === 0);
      return chosen.map((line) => `${file}:${line}-${line + blockLines - 1}`);
    }),
  );
  return blocks.flat();
}

function hash(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE();
}
