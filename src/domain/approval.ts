import { createHash } from "node:crypto";
import { z } from "zod";
import { pluralize } from "#text/pluralize.ts";
import { boundPart, boundState, isShownWhole, Preview } from "./preview.ts";

/** The decision of policy about an operation: execute it, ask a person first, or never execute it. */
export const ApprovalDecisionType = z.enum(["preApproved", "ask", "blocked"]);
export type ApprovalDecisionType = z.infer<typeof ApprovalDecisionType>;

/** Approval settings for the tools of a toolset, by tool name, with a default for the others. */
export const ApprovalConfig = z.strictObject({
  default: ApprovalDecisionType.optional(),
  tools: z.record(z.string(), ApprovalDecisionType).optional(),
});
export type ApprovalConfig = z.infer<typeof ApprovalConfig>;

/** The place where a person acted, if it was not a comment in the thread: the run page. */
export const Channel = z.literal("page");
export type Channel = z.infer<typeof Channel>;

/** A suffix for a person's name: ` on the run page`, or nothing for the thread. */
export function describeChannel(channel: Channel | undefined): string {
  return channel === "page" ? " on the run page" : "";
}

/** Everything an approval is bound to. If any part changes, the approval no longer applies. */
export interface ApprovalSubject {
  runId: string;
  /** Worker names from the root, such as `fixer -> tester`. */
  workerPath: string;
  callId: string;
  tool: string;
  args: unknown;
  baseCommit: string;
  /** A description of what the call would do; undefined if the tool has none. */
  preview: Preview | undefined;
  /** True when a person put other arguments in place of the shown ones: then the preview binds the state alone. */
  argsChanged?: boolean;
}

/** `used`: the execution of the call has begun. `revoked`: the approval was withdrawn before that. */
const ApprovalStatus = z.enum(["pending", "approved", "denied", "expired", "withdrawn", "used", "revoked"]);
export type ApprovalStatus = z.infer<typeof ApprovalStatus>;

/** A person who acted on an approval: the login then, and the permanent account id where one is known. */
const Actor = z.object({
  by: z.string(),
  byId: z.number().optional(),
  at: z.number(),
  via: Channel.optional(),
  note: z.string().optional(),
});

/** A group of people of whom a number has to approve, and the logins of those who have. */
export const Quorum = z.object({ who: z.string(), required: z.number(), by: z.array(z.string()) });
export type Quorum = z.infer<typeof Quorum>;

/** A request for approval with its answers. */
export const Approval = z.object({
  /** Short enough to type on a phone, and unique within the store. */
  id: z.string(),
  runId: z.string(),
  repositoryId: z.number().optional(),
  /** The root run, in whose thread the request is posted. */
  rootId: z.string(),
  workerPath: z.string(),
  callId: z.string(),
  /** The name the model used, which may be an alias. */
  tool: z.string(),
  /** The tool's own name; undefined in requests stored before it was kept. */
  toolName: z.string().optional(),
  /** The tool's other names, which the repository's approval rules may use. */
  toolAliases: z.array(z.string()).readonly().optional(),
  args: z.unknown(),
  baseCommit: z.string(),
  /** SHA-256 of the subject. Shown in the request, and verified again before execution. */
  digest: z.string(),
  /** The reason for asking, as a sentence. */
  reason: z.string(),
  /** The people who may approve under the repository's settings at that time, such as `Anyone with write access`. */
  approvers: z.string().optional(),
  /** True if the posted request has a checkbox that approves it. */
  hasCheckbox: z.boolean().optional(),
  /** A description of what the call would do, shown to the approver. */
  preview: Preview.optional(),
  status: ApprovalStatus,
  /** Milliseconds since 1970, like all times in the store. */
  requestedAt: z.number(),
  expiresAt: z.number(),
  /** The time at which the request was posted. */
  shownAt: z.number().optional(),
  /** Everyone who has approved, oldest first. */
  answers: z.array(Actor).optional(),
  /** Incremented by every answer and revocation that leaves the request pending. */
  revision: z.number().optional(),
  /** The people who have to approve, as of the last answer. */
  quorums: z.array(Quorum).optional(),
  /** The account ids that the logins in the repository's settings had when the request was made. */
  accounts: z.record(z.string(), z.number()).optional(),
  /** The person whose answer decided. */
  decidedBy: z.string().optional(),
  decidedById: z.number().optional(),
  decidedAt: z.number().optional(),
  revoked: Actor.optional(),
  /** The keys of the effects whose execution has begun under this approval. */
  begun: z.array(z.string()).optional(),
  via: Channel.optional(),
  note: z.string().optional(),
  /** `session`: identical calls of this run do not ask again. */
  remember: z.enum(["none", "session"]).optional(),
  /** The arguments as edited by the approver. The digest then covers these. */
  changedArgs: z.unknown().optional(),
});
export type Approval = z.infer<typeof Approval>;

/** The people who approved. An approval stored before answers were kept has one, the person who decided. */
export function answersOf({ answers, status, decidedBy, decidedById, decidedAt = 0, via }: Approval) {
  if (answers) return answers;
  if (decidedBy === undefined || status === "denied") return [];
  return [{ by: decidedBy, byId: decidedById, at: decidedAt, via }];
}

/** True for an approval that can still be revoked as a whole: its call has not begun, or it is remembered. */
export function isRevocable({ status, remember }: Approval): boolean {
  return status === "approved" || (status === "used" && remember === "session");
}

/** True for a request that one person may approve for later identical calls as well: not if several people have to approve. */
export function mayBeRemembered({ preview, quorums = [], answers = [] }: Approval): boolean {
  return isShownWhole(preview) && answers.length === 0 && quorums.every(({ required }) => required === 1);
}

/** Serializes to JSON with sorted keys, so that equal values give equal text. Omits undefined properties. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";

  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
  return `{${members.join(",")}}`;
}

/** True when an approval for the session covers this call: the same tool and arguments, with the same effect. */
export function coversCall(
  { remember, changedArgs, ...approval }: Approval,
  call: { tool: string; args: unknown; preview: Preview | undefined },
): boolean {
  if (remember !== "session" || changedArgs !== undefined || !isShownWhole(call.preview)) return false;
  const subject = ({ tool, args, preview }: typeof call) => canonicalJson({ tool, args, preview: boundPart(preview) });
  return subject({ ...approval, preview: approval.preview }) === subject(call);
}

/** The SHA-256 of the approval's subject, in hex. */
export function approvalDigest(approval: ApprovalSubject): string {
  const { runId, workerPath, callId, tool, args, baseCommit, preview, argsChanged = false } = approval;
  const subject = canonicalJson({
    runId,
    workerPath,
    callId,
    tool,
    args,
    baseCommit,
    ...(argsChanged ? { state: boundState(preview) } : { preview: boundPart(preview) }),
  });
  return createHash("sha256").update(subject).digest("hex");
}

/** The requests for approval of a run: their number, and the seconds from each being shown to its answer. */
export interface ApprovalStats {
  requested: number;
  answered: number;
  /** The mean over the answered requests; undefined without one. */
  meanSecondsToAnswer: number | undefined;
}

/** Computes the statistics of approvals, such as those of one run or of all finished runs. */
export function approvalStats(approvals: readonly Approval[]): ApprovalStats {
  const seconds = approvals.flatMap(({ shownAt, requestedAt, decidedAt }) =>
    decidedAt === undefined ? [] : [Math.max(0, decidedAt - (shownAt ?? requestedAt)) / 1_000],
  );
  return {
    requested: approvals.length,
    answered: seconds.length,
    meanSecondsToAnswer: seconds.length === 0 ? undefined : seconds.reduce((sum, one) => sum + one, 0) / seconds.length,
  };
}

/** Describes the statistics in one line; undefined when nothing was asked. */
export function describeApprovalStats({ requested, answered, meanSecondsToAnswer }: ApprovalStats): string | undefined {
  if (requested === 0) return undefined;
  const count = `${pluralize(requested, "approval")} requested, ${answered} answered`;
  return meanSecondsToAnswer === undefined ? count : `${count} after ${Math.round(meanSecondsToAnswer)} s on average`;
}
