import { type Approval, answersOf, describeChannel, mayBeRemembered } from "#domain/approval.ts";
import { pluralize } from "#text/pluralize.ts";
import { escapeInvisible } from "#text/visible-text.ts";
import { code, codeBlock, details, formatUtc, inline, paragraphs } from "./markdown.ts";
import { layOutRequest, renderPrecedingComments } from "./render-request.ts";

/** The maximum number of characters of a reason, which may quote the model. */
const maxReasonLength = 8_000;

/** Renders the request for an approval or, once it is decided, the decision. Text of the model is escaped. */
export function renderApproval(approval: Approval, link?: string): string {
  return approval.status === "pending" ? renderRequest(approval, link) : renderDecision(approval);
}

function renderRequest(approval: Approval, link: string | undefined): string {
  const { id, workerPath, tool, reason } = approval;
  return paragraphs(
    `### 🔐 **${inline(escapeInvisible(workerPath))}** asks for approval ${code(id)}`,
    inline(escapeInvisible(reason), maxReasonLength),
    `Tool ${code(escapeInvisible(tool))}`,
    layOutRequest(approval).body,
    [
      "| to | comment |",
      "|---|---|",
      `| Approve | ${code(`/approve ${id}`)} |`,
      ...(mayBeRemembered(approval)
        ? [`| Approve, and don't ask again for identical calls in this run | ${code(`/approve ${id} session`)} |`]
        : []),
      `| Deny with a reason | ${code(`/deny ${id} because …`)} |`,
      `| Revoke your approval, until the call begins | ${code(`/revoke ${id}`)} |`,
    ].join("\n"),
    approval.hasCheckbox && layOutRequest(approval).precedingComments.length === 0 && checkboxOf(id),
    renderProgress(approval),
    `${inline(approval.approvers ?? "Anyone with write access")} can approve until ${formatUtc(approval.expiresAt)}; then it is denied automatically. ` +
      `Approval covers exactly this call, once: ${bindingOf(approval)}.`,
    link && `[Watch this run](${link})`,
  );
}

/** Renders what takes the place of a request's comment that somebody edited. */
export function renderAltered({ id, workerPath }: Approval): string {
  return paragraphs(
    `### ⚠️ The request ${code(id)} of **${inline(workerPath)}** was edited here`,
    "Somebody edited this comment after it was posted, so the request is posted again below. Answers written before that do not approve it. GitHub keeps the edit in the history of this comment.",
  );
}

export function checkboxOf(id: string): string {
  return `- [ ] Approve ${code(id)} exactly as shown`;
}

/** Lists who has to approve and who has approved, if one answer is not enough. */
function renderProgress({ quorums = [] }: Approval): string | undefined {
  if (quorums.length < 2 && quorums.every(({ required }) => required === 1)) return undefined;
  return quorums
    .map(({ who, required, by }) => {
      const given = by.length > 0 ? ` (by ${by.map((login) => inline(login)).join(", ")})` : "";
      return `- **${by.length} of ${pluralize(required, "approval")}**${given}: ${inline(who, 500)}`;
    })
    .join("\n");
}

/** Renders the comments to post before this request. Most requests have none. */
export function renderBeforeApproval(approval: Approval): string[] {
  const { id, workerPath, digest, status } = approval;
  const settled = { sign: "📄", note: "This request is no longer open. The comment below shows its outcome." };
  return renderPrecedingComments(
    `Approval ${code(id)} of **${inline(workerPath)}**, digest ${code(digest.slice(0, 12))}`,
    approval,
    status === "pending" ? undefined : settled,
  );
}

function renderDecision(approval: Approval): string {
  const { id, workerPath, tool, note, changedArgs } = approval;
  return paragraphs(
    `### ${decisionOf(approval)}`,
    `${code(tool)} of **${inline(workerPath)}**, approval ${code(id)}, ${bindingOf(approval)}.`,
    note && `> ${inline(note, 2_000)}`,
    approval.revoked?.note && `> ${inline(approval.revoked.note, 2_000)}`,
    changedArgs !== undefined &&
      paragraphs(
        "With these arguments instead:",
        codeBlock(JSON.stringify(changedArgs, null, 2) ?? "undefined", "json", 12_000),
      ),
    details(
      "The request",
      paragraphs(inline(escapeInvisible(approval.reason), maxReasonLength), layOutRequest(approval).body),
    ),
  );
}

function decisionOf(approval: Approval): string {
  const { status, decidedBy = "somebody", decidedAt, via, remember, expiresAt, revoked } = approval;
  const approvers = answersOf(approval).map((answer) => `${inline(answer.by)}${describeChannel(answer.via)}`);
  const by = status === "denied" ? `${inline(decidedBy)}${describeChannel(via)}` : approvers.join(" and ");
  const at = decidedAt === undefined ? "" : `, ${formatUtc(decidedAt)}`;
  switch (status) {
    case "approved":
    case "used":
      return `✅ Approved by ${by}${remember === "session" ? " for this session" : ""}${at}${forgotten(revoked)}`;
    case "revoked":
      return `↩️ Revoked by ${inline(revoked?.by ?? "somebody")}${describeChannel(revoked?.via)} before it was used`;
    case "denied":
      return `⛔ Denied by ${by}${at}`;
    case "expired":
      return `⌛ Expired without an answer, ${formatUtc(expiresAt)}`;
    case "withdrawn":
      return "⏹️ Withdrawn: the run was paused or has ended";
    case "pending":
      return "Waiting for an answer";
  }
}

function forgotten(revoked: Approval["revoked"]): string {
  return revoked ? `; identical calls ask again, since ${inline(revoked.by)} revoked it` : "";
}

/** The start of the digest, short enough to compare by eye. */
function bindingOf({ digest, baseCommit }: Approval): string {
  return `digest ${code(digest.slice(0, 12))}, on commit ${code(baseCommit.slice(0, 7))}`;
}
