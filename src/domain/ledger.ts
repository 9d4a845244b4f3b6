import { createHash } from "node:crypto";
import { z } from "zod";
import { parseJson } from "#text/json-values.ts";
import { type Approval, Channel, canonicalJson } from "./approval.ts";
/** One event in the life of an approval, as the ledger keeps it. */
export const LedgerEntry = z.object({
  version: z.literal(1),
  /** Consecutive, starting at 1. */
  number: z.number(),
  at: z.number(),
  /** The hash of the previous entry; 64 zeros for the first. */
  previous: z.string(),
  kind: z.enum(["requested", "approved", "denied", "expired", "withdrawn", "revoked", "executed", "refused"]),
  approvalId: z.string(),
  runId: z.string(),
  rootId: z.string(),
  repositoryId: z.number().optional(),
  tool: z.string(),
  digest: z.string(),
  by: z.string().optional(),
  byId: z.number().optional(),
  via: Channel.optional(),
  /** The commit that an executed call pushed. */
  commit: z.string().optional(),
  /** The reason why a call was refused or failed. */
  reason: z.string().optional(),
});
export type LedgerEntry = z.infer<typeof LedgerEntry>;

/** An entry before it has its place in the chain. */
export type LedgerDraft = Omit<LedgerEntry, "version" | "number" | "previous">;

/** An entry as it is stored: the canonical JSON that was hashed, and its hash. */
export interface StoredLedgerEntry {
  number: number;
  hash: string;
  entry: string;
}

const firstPrevious = "0".repeat(64);
const maxReasonLength = 300;

export function ledgerDraft(
  kind: LedgerEntry["kind"],
  { id, runId, rootId, repositoryId, tool, digest }: Approval,
  { at, reason, ...details }: Pick<LedgerEntry, "at" | "by" | "byId" | "via" | "commit" | "reason">,
): LedgerDraft {
  return {
    kind,
    at,
    approvalId: id,
    runId,
    rootId,
    repositoryId,
    tool,
    digest,
    ...details,
    ...(reason !== undefined && { reason: reason.slice(0, maxReasonLength) }),
  };
}

/** Chains drafts to the last stored entry, which is undefined for an empty ledger. */
export function chainEntries(
  drafts: readonly LedgerDraft[],
  last: Pick<StoredLedgerEntry, "number" | "hash"> | undefined,
): StoredLedgerEntry[] {
  const chained: StoredLedgerEntry[] = [];
  let { number, hash } = last ?? { number: 0, hash: firstPrevious };
  for (const draft of drafts) {
    number += 1;
    const entry = canonicalJson({ version: 1, number, previous: hash, ...draft });
    hash = createHash("sha256").update(entry).digest("hex");
    chained.push({ number, hash, entry });
  }
  return chained;
}

/** The state of a verification: the last entry that was checked. */
export type LedgerHead = Pick<StoredLedgerEntry, "number" | "hash">;

export const emptyLedger: LedgerHead = { number: 0, hash: firstPrevious };

/** Checks the entry that has to follow the given head. Returns the entry, or what is wrong with it. */
export function verifyEntry(head: LedgerHead, { number, hash, entry }: StoredLedgerEntry): LedgerEntry | string {
  if (number !== head.number + 1) return `Entry ${head.number + 1} is missing.`;
  if (createHash("sha256").update(entry).digest("hex") !== hash) return `Entry ${number} does not match its hash.`;
  const parsed = LedgerEntry.safeParse(parseJson(entry));
  if (!parsed.success) return `Entry ${number} cannot be read.`;
  if (parsed.data.number !== number) return `Entry ${number} has the number ${parsed.data.number}.`;
  if (parsed.data.previous !== head.hash) return `Entry ${number} does not follow entry ${head.number}.`;
  return parsed.data;
}
