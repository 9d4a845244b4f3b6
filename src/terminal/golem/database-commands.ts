import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { readPostgresUrl } from "#config/environment.ts";
import { deferred } from "#domain/async-work.ts";
import { type ParsedTrailers, parseTrailers } from "#domain/commit-trailers.ts";
import { UserError } from "#domain/errors.ts";
import { emptyLedger, type LedgerEntry, type LedgerHead, verifyEntry } from "#domain/ledger.ts";
import { pushedCommits } from "#runtime/read-log.ts";
import {
  backUpDatabase,
  checkDatabase,
  compactDatabase,
  restoreDatabase,
} from "#runtime/store/sqlite/maintain-database.ts";
import { openSqliteStoreReadOnly } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { costsToCsv, readDays, sumBy } from "#runtime/views/daily-costs.ts";
import { runGit } from "#sandbox/checkout/run-git.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import { pluralize } from "#text/pluralize.ts";
import {
  type CommandContext,
  exitCodes,
  parseWords,
  readEnvFile,
  refuseArguments,
  type Words,
} from "./command-context.ts";

/** The database of a server, as reached from this machine. */
export type ServerDatabase = { kind: "sqlite"; path: string } | { kind: "postgres"; url: string };

const defaultDatabase = "file:./data/golem-forge.db";
const pageSize = 500;

/** Resolves to the database given with `--database`, or else with DATABASE_URL in the environment or in `.env`. */
async function chosenDatabase(options: Words["options"], context: CommandContext): Promise<ServerDatabase> {
  const given = options.get("database")?.at(-1);
  return databaseAt(typeof given === "string" ? given : await configuredUrl(context), context);
}

/** Parses the address of a database. Throws a UserError for an invalid address. */
function databaseAt(url: string, { cwd }: CommandContext): ServerDatabase {
  if (readPostgresUrl(url)) return { kind: "postgres", url };
  if (/^postgres(ql)?:/i.test(url)) {
    throw new UserError(
      "This is not the address of a PostgreSQL database: postgres://user:password@host:5432/database, with the password percent-encoded.",
    );
  }
  return { kind: "sqlite", path: resolve(cwd, url.replace(/^(file|sqlite):(\/\/)?/, "")) };
}

async function configuredUrl(context: CommandContext): Promise<string> {
  return context.env.DATABASE_URL || (await readEnvFile(context)).DATABASE_URL || defaultDatabase;
}

function requireFile(path: string): void {
  if (!existsSync(path)) throw new UserError(`Database ${path} not found. Name it with --database.`);
}

/** Opens the store for reading, even while the server uses it. */
async function openServerStore(database: ServerDatabase): Promise<Store> {
  if (database.kind === "postgres") {
    const { openPostgresConnection } = await import("#runtime/store/postgres/postgres-connection.ts");
    const { openPostgresStore } = await import("#runtime/store/postgres/open-postgres-store.ts");
    return openPostgresStore(await openPostgresConnection(database.url));
  }
  requireFile(database.path);
  return openSqliteStoreReadOnly(database.path);
}

/** Reads the ledger up to the first invalid entry. */
async function readVerified(
  store: Pick<Store, "readLedger">,
  onEntry: (entry: LedgerEntry) => void,
): Promise<{ head: LedgerHead; problem?: string }> {
  let head = emptyLedger;
  for (;;) {
    const page = await store.readLedger(head.number, pageSize);
    for (const stored of page) {
      const entry = verifyEntry(head, stored);
      if (typeof entry === "string") return { head, problem: entry };
      onEntry(entry);
      head = stored;
    }
    if (page.length < pageSize) return { head };
  }
}

type Action = (words: Words, context: CommandContext) => Promise<number>;

const actions: Record<string, Action> = { backup, restore, copy, check, compact };

/** `golem db`: backs up, restores, copies, checks and compacts the database of a server. */
export async function database(args: readonly string[], context: CommandContext): Promise<number> {
  const words = parseWords(args, {
    database: { type: "string" },
    from: { type: "string" },
    to: { type: "string" },
    "no-color": { type: "boolean" },
  });
  const [name = "", ...files] = words.positionals;
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
  if (!action) throw new UserError("Use golem db backup, restore, copy, check or compact. See golem help db.");
  return action({ ...words, positionals: files }, context);
}

async function backup({ positionals, options }: Words, context: CommandContext): Promise<number> {
  const file = onlyFile("backup", positionals, context);
  const source = await chosenDatabase(options, context);
  if (source.kind === "sqlite") {
    requireFile(source.path);
    await backUpDatabase(source.path, file);
  } else {
    const { dumpDatabase } = await import("#runtime/store/postgres/dump.ts");
    await dumpDatabase(source.url, file);
  }
  context.output.write(`Backed up to ${file} (${inMegabytes((await stat(file)).size)}).\n`);
  return exitCodes.answered;
}

async function restore({ positionals, options }: Words, context: CommandContext): Promise<number> {
  const file = onlyFile("restore", positionals, context);
  const target = await chosenDatabase(options, context);
  if (target.kind === "sqlite") {
    const replaced = await restoreDatabase(file, target.path);
    context.output.write(`Restored ${target.path} from ${file}.\n`);
    if (replaced !== undefined) context.output.write(`The previous database is now ${replaced}.\n`);
  } else {
    const { restoreDump } = await import("#runtime/store/postgres/dump.ts");
    await restoreDump(file, target.url);
    context.output.write(`Restored from ${file}.\n`);
  }
  context.output.write("Start the server: it continues the runs of the backup.\n");
  return exitCodes.answered;
}

async function copy({ positionals, options }: Words, context: CommandContext): Promise<number> {
  const [from, to] = ["from", "to"].map((name) => options.get(name)?.at(-1));
  const usage = "Use golem db copy --from sqlite:<file> --to postgres://user:password@host:5432/database.";
  if (positionals.length > 0 || typeof from !== "string" || typeof to !== "string") throw new UserError(usage);
  const [source, target] = [databaseAt(from, context), databaseAt(to, context)];
  if (source.kind !== "sqlite" || target.kind !== "postgres") throw new UserError(usage);
  requireFile(source.path);
  const { copyDatabase } = await import("#runtime/store/copy-database.ts");
  const copied = await copyDatabase(source.path, target.url);
  for (const [table, rows] of Object.entries(copied)) context.output.write(`${table.padEnd(20)}${rows}\n`);
  const store = await openServerStore(target);
  try {
    const { head, problem } = await readVerified(store, () => {});
    if (problem !== undefined) throw new UserError(`The copy is complete, but its ledger is not intact: ${problem}`);
    context.output.write(
      `All rows were copied and counted; the ledger is intact: ${pluralize(head.number, "entry", "entries")}.\n`,
    );
  } finally {
    await store.close();
  }
  context.output.write("Set DATABASE_URL to the new database and start the server.\n");
  return exitCodes.answered;
}

async function check({ positionals, options }: Words, context: CommandContext): Promise<number> {
  refuseArguments("golem db check", positionals);
  const checked = await chosenDatabase(options, context);
  if (checked.kind === "sqlite") {
    requireFile(checked.path);
    const problem = checkDatabase(checked.path);
    if (problem !== undefined) {
      context.output.write(
        `The database ${checked.path} is damaged: ${problem}.\nRestore a backup: golem db restore.\n`,
      );
      return exitCodes.failed;
    }
  }
  const store = await openServerStore(checked);
  await using _ = deferred(() => store.close());
  const { head, problem } = await readVerified(store, () => {});
  const ledger = problem ?? `The database is intact. Its ledger has ${pluralize(head.number, "entry", "entries")}.`;
  context.output.write(`${ledger}\n`);
  return problem === undefined ? exitCodes.answered : exitCodes.failed;
}

async function compact({ positionals, options }: Words, context: CommandContext): Promise<number> {
  refuseArguments("golem db compact", positionals);
  const compacted = await chosenDatabase(options, context);
  if (compacted.kind === "postgres") throw new UserError("PostgreSQL does this automatically (autovacuum).");
  requireFile(compacted.path);
  const { before, after } = await compactDatabase(compacted.path);
  context.output.write(`${compacted.path}: ${inMegabytes(before)} before, ${inMegabytes(after)} now.\n`);
  return exitCodes.answered;
}

function onlyFile(action: string, [file, stray]: readonly string[], { cwd }: CommandContext): string {
  if (file === undefined || stray !== undefined) throw new UserError(`Use golem db ${action} <file>.`);
  return resolve(cwd, file);
}

function inMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** `golem audit verify [commit]`: checks the chain of the ledger, or the approvals that a commit's trailers name. */
export async function audit(args: readonly string[], context: CommandContext): Promise<number> {
  const { positionals, options } = parseWords(args, {
    database: { type: "string" },
    "no-color": { type: "boolean" },
  });
  const [action, commit, stray] = positionals;
  if (action !== "verify" || stray !== undefined) {
    throw new UserError("Use golem audit verify [commit] [--database <URL or path>].");
  }
  const database = await chosenDatabase(options, context);
  if (commit === undefined) return verifyLedger(database, context);
  return verifyCommit(commit, database, context);
}

async function verifyLedger(database: ServerDatabase, context: CommandContext): Promise<number> {
  const store = await openServerStore(database);
  await using _ = deferred(() => store.close());
  const { head, problem } = await readVerified(store, () => {});
  if (problem === undefined) {
    context.output.write(
      `The ledger is intact: ${pluralize(head.number, "entry", "entries")}, the last with hash ${head.hash}.\n`,
    );
    return exitCodes.answered;
  }
  context.output.write(
    `${problem}\nThe ${pluralize(head.number, "entry before it is", "entries before it are")} intact.\n`,
  );
  return exitCodes.failed;
}

async function verifyCommit(commit: string, database: ServerDatabase, context: CommandContext): Promise<number> {
  const { output, cwd } = context;
  const found = await runGit(["rev-parse", "--verify", "--end-of-options", `${commit}^{commit}`], { cwd }).catch(() => {
    throw new UserError(`This repository has no commit ${commit}. Fetch it, or check the name.`);
  });
  const hash = found.toString().trim();
  const trailers = parseTrailers((await runGit(["show", "-s", "--format=%B", hash], { cwd })).toString());
  if (trailers.runId === undefined) {
    output.write(`${hash} has no trailers of a run.\n`);
    return exitCodes.failed;
  }
  output.write(`${hash}\n  run           ${oneLine(trailers.runId)}\n`);
  output.write(`  requested by  ${oneLine(trailers.requestedBy ?? "unknown")}\n`);
  const store = await openServerStore(database);
  await using _ = deferred(() => store.close());
  if (trailers.approvals.length === 0) {
    const missing = await findMissingPush(store, trailers.runId, hash);
    output.write(`  approved by   nobody: ${missing ?? "the run pushed it in a call that needed no approval"}\n`);
    return missing === undefined ? exitCodes.answered : exitCodes.failed;
  }
  const entries: LedgerEntry[] = [];
  const ids = new Set(trailers.approvals.map(({ approvalId }) => approvalId));
  const { problem } = await readVerified(store, (entry) => {
    if (ids.has(entry.approvalId)) entries.push(entry);
  });
  if (problem !== undefined) {
    output.write(`The ledger is broken: ${problem}\n`);
    return exitCodes.failed;
  }
  const findings = trailers.approvals.map((approval) => ({
    approval,
    missing: findMissing(approval, entries, hash),
  }));
  for (const { approval, missing } of findings) {
    const { login, accountId, approvalId, digest } = approval;
    const who = accountId === undefined ? login : `${login} (account ${accountId})`;
    output.write(
      `  approved by   ${oneLine(who)}, approval ${approvalId}, sha256:${digest}: ${missing ?? "in the ledger"}\n`,
    );
  }
  return findings.every(({ missing }) => missing === undefined) ? exitCodes.answered : exitCodes.failed;
}

/** Explains why the log of the run does not confirm that it pushed a commit; undefined if it does. Anyone can write trailers. */
async function findMissingPush(store: Store, runId: string, commit: string): Promise<string | undefined> {
  const run = await store.findRun(runId);
  if (!run) return "NOT confirmed: the database has no such run";
  if (run.unreadable) return `NOT confirmed: ${run.unreadable.message}`;
  if (run.logRemovedAt !== undefined) return "NOT confirmed: the log of the run was removed";
  return pushedCommits(await store.log(runId)).includes(commit) ? undefined : "NOT confirmed: the run did not push it";
}

/** Explains which part of an approval the ledger does not have; undefined if it has all. */
function findMissing(
  { accountId, login, approvalId, digest }: ParsedTrailers["approvals"][number],
  entries: readonly LedgerEntry[],
  commit: string,
): string | undefined {
  const own = entries.filter((entry) => entry.approvalId === approvalId && entry.digest === digest);
  const isPerson = (entry: LedgerEntry) => (accountId === undefined ? entry.by === login : entry.byId === accountId);
  const lastAnswer = own.filter((entry) => isPerson(entry) && /^(approved|revoked)$/.test(entry.kind)).at(-1);
  if (lastAnswer?.kind !== "approved") return "NOT in the ledger";
  const isExecuted = own.some((entry) => entry.kind === "executed" && entry.commit === commit);
  return isExecuted ? undefined : "in the ledger, but NOT for this commit";
}

/** `golem costs`: prints the model costs in the server's database by worker, repository and day. */
export async function costs(args: readonly string[], context: CommandContext): Promise<number> {
  const { positionals, options } = parseWords(args, {
    from: { type: "string" },
    to: { type: "string" },
    csv: { type: "boolean" },
    database: { type: "string" },
    "no-color": { type: "boolean" },
  });
  if (positionals.length > 0) throw new UserError("Use golem costs [--from <day>] [--to <day>] [--csv].");
  const given = (name: string) => options.get(name)?.at(-1)?.toString();
  const days = readDays({ from: given("from"), to: given("to") }, Date.now());
  const store = await openServerStore(await chosenDatabase(options, context));
  await using _ = deferred(() => store.close());
  const found = await store.dailyCosts(days);
  if (options.has("csv")) {
    context.output.write(costsToCsv(found));
    return exitCodes.answered;
  }
  const total = found.reduce((sum, { cost }) => sum + cost, 0);
  context.output.write(`${dollars(total)} from ${days.from} to ${days.to} (UTC)\n`);
  for (const [title, nameOf] of [
    ["repository", ({ repository: { owner, repo } }: (typeof found)[number]) => `${owner}/${repo}`],
    ["worker", ({ worker }: (typeof found)[number]) => worker],
    ["day", ({ day }: (typeof found)[number]) => day],
  ] as const) {
    const sums = sumBy(found, nameOf);
    if (title === "day") sums.sort((a, b) => b.name.localeCompare(a.name));
    if (sums.length > 0) context.output.write(`\nby ${title}\n`);
    for (const { name, cost } of sums) context.output.write(`  ${dollars(cost).padStart(10)}  ${oneLine(name)}\n`);
  }
  return exitCodes.answered;
}

function dollars(amount: number): string {
  return `$${amount.toFixed(amount > 0 && amount < 1 ? 4 : 2)}`;
}
