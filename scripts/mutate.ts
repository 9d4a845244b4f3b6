/**
 * Mutation testing: makes one small change (a mutant) at a time to the code of an area, and runs the area's fast tests. If
 * a test fails, the mutant is killed; otherwise, or if no test runs the code, it survives. Prints survivors as they are
 * found and the score of each area, which is the share of killed mutants. Writes reports to `reports/mutation`. Exits
 * with 1 if a score is below 85 %.
 *
 * usage: npm run mutate -- [area…] [--sample N [--part I]] [--concurrency N]
 *
 * --sample N  changes only every Nth block of 20 lines, on average. The hash of its location selects a block, so the
 *             selection is always the same.
 * --part I    changes the Ith of the N samples, so that parts 1 to N are a complete run.
 */
import { createHash } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { glob, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Stryker } from "@stryker-mutator/core";
import { postgresPrograms, startPostgresServer } from "../test/support/postgres-server.ts";

interface Area {
  /** Globs of the code to change. */
  code: string[];
  /** Globs of the tests to run. Tests that start processes or servers would take too long. */
  tests: string[];
  /** Starts one PostgreSQL server for all tests, if it is installed. */
  needsPostgres?: boolean;
}

const areas: Record<string, Area> = {
  machines: { code: ["src/machines/*.ts"], tests: ["test/machines/*.test.ts"] },
  domain: { code: ["src/domain/*.ts"], tests: ["test/domain/*.test.ts"] },
  approvals: {
    code: [
      "src/runtime/{approval-rules,service/decide-approvals,service/describe-feedback}.ts",
      "src/runtime/effects/{check-approval,tool-calls,post-requests}.ts",
      "src/runtime/store/apply-decision.ts",
      "src/toolsets/shell/{command-policy,judge-command}.ts",
    ],
    tests: [
      "test/runtime/{approval-rules,service/decide-approvals,service/describe-feedback}.test.ts",
      "test/runtime/{effects/execute-tool,effects/person-calls,effects/post-requests,effects/review-calls}.test.ts",
      "test/runtime/store/apply-decision.test.ts",
      "test/toolsets/shell/judge-command.test.ts",
    ],
  },
  runtime: {
    code: [
      "src/runtime/{apply-events,read-log,service/run-requests}.ts",
      "src/runtime/scheduler/{run-session,run-scheduler,run-observer}.ts",
      "src/runtime/effects/{person-calls,children,post-to-thread,effect-handler}.ts",
    ],
    tests: [
      "test/runtime/{apply-events,cost-watch,read-log,scheduler/run-scheduler,service/run-requests}.test.ts",
      "test/runtime/effects/{children,execute-tool,person-calls,post-requests,post-to-thread}.test.ts",
    ],
  },
  authorization: {
    code: [
      "src/bot/deliveries/{incoming-comment,handle-comment,handler}.ts",
      "src/bot/commands/{execute-command,thread-command}.ts",
      "src/bot/github/{accounts,read-responses,conversation}.ts",
      "src/web/{sessions,sign-in}.ts",
    ],
    tests: [
      "test/bot/commands/thread-command.test.ts",
      "test/bot/deliveries/{handle-comment,handle-access,handle-review,incoming-comment,process-deliveries,receive-delivery}.test.ts",
      "test/bot/github/{conversation,open-github}.test.ts",
      "test/web/{commanding,sign-in}.test.ts",
    ],
  },
  redaction: {
    code: ["src/text/{redact,sanitize,visible-text}.ts"],
    tests: ["test/text/{redact,sanitize,untrusted,visible-text}.test.ts"],
  },
  sandbox: {
    code: ["src/sandbox/{git/push-changes,git/read-base,merge/*,zones}.ts"],
    tests: [
      "test/sandbox/{git/git-sandbox,git/push,git/push-changes,git/read-base,merge/find-renames,merge/merge-branch,merge/merge-file,zones,workspace,paths}.test.ts",
    ],
  },
  store: {
    code: ["src/runtime/store/*.ts", "src/runtime/store/sqlite/*.ts"],
    tests: [
      "test/runtime/store/{apply-decision,sqlite-store,store-model,git-store,stored-rows}.test.ts",
      "test/runtime/store/{unreadable-data,unusable-database}.test.ts",
      "test/terminal/database-commands.test.ts",
    ],
    needsPostgres: true,
  },
};

const minScore = 85;
const blockLines = 20;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: "string", default: "1" },
    part: { type: "string", default: "1" },
    concurrency: { type: "string", default: "1" },
  },
});
const [sample, part, concurrency] = [values.sample, values.part, values.concurrency].map(Number) as [
  number,
  number,
  number,
];

const unknown = positionals.filter((name) => !(name in areas));
if (unknown.length > 0) {
  console.error(`Unknown area: ${unknown.join(", ")}. The areas are ${Object.keys(areas).join(", ")}.`);
  process.exit(2);
}

const rows: string[] = [];
for (const [name, area] of Object.entries(areas)) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  if (area.needsPostgres && postgresPrograms) process.env.GOLEM_FORGE_MUTATION_POSTGRES ??= await startPostgres();
  const { killed, mutants, score } = await mutate(name, area);
  rows.push(`| ${name} | ${killed} of ${mutants} | ${score.toFixed(1)} % |`);
  if (score < minScore) process.exitCode = 1;
}
console.log(`\n| area | mutants killed | score |\n|---|---|---|\n${rows.join("\n")}`);

async function mutate(name: string, { code, tests }: Area) {
  const report = `reports/mutation/${name}`;
  // Stryker's option `testFiles` is not used, because it disables mutants in code that runs when a module is loaded.
  process.env.GOLEM_FORGE_MUTATION_TESTS = tests.join(" ");
  const stryker = new Stryker({
    mutate: await blocksOf(code),
    concurrency,
    htmlReporter: { fileName: `${report}.html` },
    jsonReporter: { fileName: `${report}.json` },
  });
  const results = await stryker.runMutationTest();
  const count = (...statuses: string[]) => results.filter(({ status }) => statuses.includes(status)).length;
  const killed = count("Killed", "Timeout");
  const mutants = killed + count("Survived", "NoCoverage");
  return { killed, mutants, score: mutants === 0 ? 100 : (100 * killed) / mutants };
}

/** Starts a server that stops with this process, for `newDatabase` of the tests. Returns its folder. */
async function startPostgres(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "golem-mutate-"));
  chmodSync(folder, 0o755);
  const { pid, url } = await startPostgresServer(join(folder, "server"));
  process.once("exit", () => {
    process.kill(pid, "SIGQUIT");
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  await writeFile(join(folder, "ready"), url("postgres"));
  return folder;
}

/** Returns the files for Stryker's option `mutate` or, with `sample` above 1, the ranges of lines in them. */
async function blocksOf(globs: string[]): Promise<string[]> {
  const files = (await Array.fromAsync(glob(globs))).sort();
  if (sample === 1) return files;
  const blocks = await Promise.all(
    files.map(async (file) => {
      const lines = (await readFile(file, "utf8")).split("\n").length;
      const starts = Array.from({ length: Math.ceil(lines / blockLines) }, (_, index) => index * blockLines + 1);
      const chosen = starts.filter((line) => hash(`${file}:${line}`) % sample === part - 1);
      return chosen.map((line) => `${file}:${line}-${line + blockLines - 1}`);
    }),
  );
  return blocks.flat();
}

function hash(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE();
}
