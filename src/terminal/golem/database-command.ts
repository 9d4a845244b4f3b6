import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { UserError } from "#domain/errors.ts";
import {
  backUpDatabase,
  checkDatabase,
  compactDatabase,
  restoreDatabase,
} from "#runtime/store/sqlite/maintain-database.ts";
import { type CommandContext, exitCodes, parseWords, refuseArguments, type Words } from "./command-context.ts";
import { chosenDatabase, databaseAt, openServerStore, readVerified, requireFile } from "./server-database.ts";

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
    if (replaced !== undefined) context.output.write(`The database as it was before is ${replaced}.\n`);
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
    context.output.write(`All rows were copied and counted; the ledger is intact: ${head.number} entries.\n`);
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
  try {
    const { head, problem } = await readVerified(store, () => {});
    const ledger = problem ?? `The database is intact. Its ledger has ${head.number} entries.`;
    context.output.write(`${ledger}\n`);
    return problem === undefined ? exitCodes.answered : exitCodes.failed;
  } finally {
    await store.close();
  }
}

async function compact({ positionals, options }: Words, context: CommandContext): Promise<number> {
  refuseArguments("golem db compact", positionals);
  const compacted = await chosenDatabase(options, context);
  if (compacted.kind === "postgres") throw new UserError("PostgreSQL does this by itself (autovacuum).");
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
