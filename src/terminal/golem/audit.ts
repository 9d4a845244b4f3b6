import { type ParsedTrailers, parseTrailers } from "#domain/commit-trailers.ts";
import { UserError } from "#domain/errors.ts";
import type { LedgerEntry } from "#domain/ledger.ts";
import { runGit } from "#sandbox/checkout/run-git.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import { type CommandContext, exitCodes, parseWords } from "./command-context.ts";
import { chosenDatabase, openServerStore, readVerified, type ServerDatabase } from "./server-database.ts";

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
  try {
    const { head, problem } = await readVerified(store, () => {});
    if (problem === undefined) {
      context.output.write(`The ledger is intact: ${head.number} entries, the last with hash ${head.hash}.\n`);
      return exitCodes.answered;
    }
    context.output.write(`${problem}\nThe ${head.number} entries before it are intact.\n`);
    return exitCodes.failed;
  } finally {
    await store.close();
  }
}

async function verifyCommit(commit: string, database: ServerDatabase, context: CommandContext): Promise<number> {
  const { output, cwd } = context;
  const found = await runGit(["rev-parse", "--verify", "--end-of-options", `${commit}^{commit}`], { cwd }).catch(() => {
    throw new UserError(`This repository has no commit ${commit}. Fetch it, or check the name.`);
  });
  const hash = found.toString().trim();
  const trailers = parseTrailers((await runGit(["show", "-s", "--format=%B", hash], { cwd })).toString());
  if (trailers.runId === undefined) {
    output.write(`${hash} carries no trailers of a run.\n`);
    return exitCodes.failed;
  }
  output.write(`${hash}\n  run           ${oneLine(trailers.runId)}\n`);
  output.write(`  requested by  ${oneLine(trailers.requestedBy ?? "unknown")}\n`);
  if (trailers.approvals.length === 0) output.write("  approved by   nobody: the commit needed no approval\n");
  const store = await openServerStore(database);
  try {
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
  } finally {
    await store.close();
  }
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
