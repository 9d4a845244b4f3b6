import { createHash } from "node:crypto";
import { z } from "zod";
import { Channel } from "./channel.ts";
import { boundPart, Preview } from "./preview.ts";

/** What policy says of an operation: do it, ask a person first, or never do it. */
export const ApprovalDecisionType = z.enum(["preApproved", "ask", "blocked"]);
export type ApprovalDecisionType = z.infer<typeof ApprovalDecisionType>;

/** Approval of a toolset's tools by name, with a default for those not named. */
export const ApprovalConfig = z.strictObject({
  default: ApprovalDecisionType.optional(),
  tools: z.record(z.string(), ApprovalDecisionType).optional(),
});
export type ApprovalConfig = z.infer<typeof ApprovalConfig>;

/** Everything an approval is bound to: change one of these and it is another operation. */
export interface ApprovalSubject {
  runId: string;
  /** The chain of workers from the root, `fixer -> tester`. */
  workerPath: string;
  callId: string;
  tool: string;
  args: unknown;
  /** The commit the sandbox stands on. */
  baseCommit: string;
  /** What it would do; undefined where the tool says nothing about that. */
  preview: Preview | undefined;
}

const ApprovalStatus = z.enum(["pending", "approved", "denied", "expired", "withdrawn", "used"]);
export type ApprovalStatus = z.infer<typeof ApprovalStatus>;

/** One row of the approval ledger. */
export const Approval = z.object({
  /** Short and easy to type on a phone, unique within the store. */
  id: z.string(),
  runId: z.string(),
  /** The run whose thread shows it. */
  rootId: z.string(),
  workerPath: z.string(),
  callId: z.string(),
  tool: z.string(),
  args: z.unknown(),
  baseCommit: z.string(),
  /** sha256 of the subject, shown in the comment and checked again at execution. */
  digest: z.string(),
  /** Why it is asked, as a sentence. */
  reason: z.string(),
  /** Who may approve, as the repository's settings had it then: `Anyone with write access`. */
  approvers: z.string().optional(),
  /** What it would do, shown to the person who decides. */
  preview: Preview.optional(),
  status: ApprovalStatus,
  /** Milliseconds since 1970, like every time in the store. */
  requestedAt: z.number(),
  expiresAt: z.number(),
  decidedBy: z.string().optional(),
  decidedAt: z.number().optional(),
  via: Channel.optional(),
  note: z.string().optional(),
  /** `session`: equal calls of this run's tree need not be asked again. */
  remember: z.enum(["none", "session"]).optional(),
  /** What the person put in place of the arguments; the digest then covers these. */
  changedArgs: z.unknown().optional(),
  /** The comment it was asked in, once posted. */
  commentId: z.number().optional(),
});
export type Approval = z.infer<typeof Approval>;

/** JSON with object keys in order, so that equal values have equal text. Undefined members are left out. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";

  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
  return `{${members.join(",")}}`;
}

/** The sha256, in hex, of everything the approval is bound to. */
export function approvalDigest(approval: ApprovalSubject): string {
  const { runId, workerPath, callId, tool, args, baseCommit, preview } = approval;
  const subject = canonicalJson({ runId, workerPath, callId, tool, args, baseCommit, preview: boundPart(preview) });
  return createHash("sha256").update(subject).digest("hex");
}
