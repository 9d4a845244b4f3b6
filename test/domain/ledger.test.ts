import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { canonicalJson } from "#domain/approval.ts";
import { chainEntries, emptyLedger, type LedgerEntry, ledgerDraft, verifyEntry } from "#domain/ledger.ts";
import { sampleApproval } from "../support/store-samples.ts";

const approval = sampleApproval("r1", "a1", { repositoryId: 11 });
const drafts = [
  ledgerDraft("requested", approval, { at: 1_000 }),
  ledgerDraft("approved", approval, { at: 2_000, by: "ada", byId: 1, via: "page" }),
  ledgerDraft("executed", approval, { at: 3_000, commit: "c".repeat(40) }),
];
const [first, second, third] = chainEntries(drafts, undefined);
if (!first || !second || !third) throw new Error("The entries were not chained");

/** An entry with other contents and the matching hash. */
function forged(contents: object | string) {
  const entry = typeof contents === "string" ? contents : canonicalJson(contents);
  return { number: 2, entry, hash: createHash("sha256").update(entry).digest("hex") };
}

test("a draft names the approval, its run, its subject and who did what", () => {
  expect(drafts[1]).toEqual({
    kind: "approved",
    at: 2_000,
    approvalId: "a1",
    runId: "r1",
    rootId: "r1",
    repositoryId: 11,
    tool: "write_file",
    digest: approval.digest,
    by: "ada",
    byId: 1,
    via: "page",
  });
});

test("a reason is kept in 300 characters", () => {
  expect(ledgerDraft("refused", approval, { at: 1, reason: "x".repeat(400) }).reason).toBe("x".repeat(300));
  expect(ledgerDraft("refused", approval, { at: 1 })).not.toHaveProperty("reason");
});

test("entries are numbered from 1 and chained by their hashes, also over several calls", () => {
  expect([first, second, third].map(({ number }) => number)).toEqual([1, 2, 3]);
  expect(JSON.parse(first.entry)).toMatchObject({ version: 1, number: 1, previous: "0".repeat(64) });
  expect(JSON.parse(second.entry)).toMatchObject({ number: 2, previous: first.hash });
  expect(chainEntries(drafts.slice(2), second)).toEqual([third]);
});

test("a stored chain is verified entry by entry", () => {
  expect(emptyLedger).toEqual({ number: 0, hash: "0".repeat(64) });
  expect(verifyEntry(emptyLedger, first)).toMatchObject({ kind: "requested", approvalId: "a1" });
  expect(verifyEntry(first, second)).toMatchObject({ kind: "approved", by: "ada" });
  expect(verifyEntry(second, third)).toMatchObject({ kind: "executed", commit: "c".repeat(40) });
});

const stored = JSON.parse(second.entry) as LedgerEntry;

test.each([
  ["an entry that is left out", third, "Entry 2 is missing."],
  ["an entry that is repeated", first, "Entry 2 is missing."],
  ["a changed text", { ...second, entry: second.entry.replace("ada", "eve") }, "Entry 2 does not match its hash."],
  ["something else than JSON", forged("no"), "Entry 2 cannot be read."],
  ["another format", forged({ ...stored, version: 2 }), "Entry 2 cannot be read."],
  ["an unknown kind", forged({ ...stored, kind: "forged" }), "Entry 2 cannot be read."],
  ["another number inside", forged({ ...stored, number: 7 }), "Entry 2 has the number 7."],
  ["a fork of the chain", forged({ ...stored, previous: "f".repeat(64) }), "Entry 2 does not follow entry 1."],
])("verification finds %s", (_, entry, problem) => {
  expect(verifyEntry(first, entry)).toBe(problem);
});
