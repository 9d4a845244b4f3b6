import { type Approval, answersOf, mayBeRemembered } from "#domain/approval.ts";
import { type FileToShow, renderChanges } from "#text/changes/render-changes.ts";
import { type Html, html } from "#text/html.ts";
import { pluralize } from "#text/pluralize.ts";
import { escapeInvisible, replaceHidden } from "#text/visible-text.ts";
import { type RequestBlock, requestBlocks } from "#ui/request-blocks.ts";
import { formKeyField, type PageContext } from "./page-context.ts";
import { renderMarkdownText, renderPre } from "./value-to-html.ts";

/** Renders a pending request with all its changes and the forms to decide it, or an approval that can be revoked. */
export function renderApprovalCard(approval: Approval, context: PageContext): Html {
  if (approval.status !== "pending") return renderGranted(approval, context);
  const {
    id,
    workerPath,
    tool,
    reason,
    digest,
    baseCommit,
    approvers = "Anyone with write access",
    expiresAt,
  } = approval;
  const blocks = requestBlocks(approval);
  const texts = blocks.filter(({ kind }) => kind === "text");
  return html`<article class="card approval" id="approval-${id}" aria-labelledby="approval-${id}-title">
<h2 id="approval-${id}-title">🔐 ${escapeInvisible(workerPath)} asks for approval <code>${id}</code></h2>
<p>${escapeInvisible(reason)}</p>
<p>Tool <code>${escapeInvisible(tool)}</code></p>
${texts.map((part) => renderText(part, markdownOf(approval, part), context))}${renderChanges(toFiles(blocks), `changes-${id}`)}${blocks.filter(({ kind }) => kind === "arguments").map((part) => renderArguments(part, blocks.length > 1))}
${renderProgress(approval)}${renderForms(approval, context)}
<p class="small">${approvers} can approve until <time datetime="${new Date(expiresAt).toISOString()}">${new Date(expiresAt).toISOString().slice(0, 16).replace("T", " ")} UTC</time>; after that the request is denied automatically. Approval covers exactly this call, once: digest <code>${digest.slice(0, 12)}</code>, commit <code>${baseCommit.slice(0, 7)}</code>.</p>
</article>`;
}

function renderGranted(approval: Approval, context: PageContext): Html {
  const { id, workerPath, tool, remember } = approval;
  const by = answersOf(approval).map((answer) => answer.by);
  return html`<article class="card approval" id="approval-${id}" aria-labelledby="approval-${id}-title">
<h2 id="approval-${id}-title">✅ <code>${tool}</code> of ${workerPath} is approved by ${by.join(" and ")}${remember === "session" && " for this session"}</h2>
${renderRevokeForm(approval, context)}
</article>`;
}

/** Renders who has to approve and who has approved, if one answer is not enough. */
function renderProgress({ quorums = [] }: Approval): Html | undefined {
  if (quorums.length < 2 && quorums.every(({ required }) => required === 1)) return undefined;
  return html`<ul class="small">${quorums.map(({ who, required, by }) => html`<li><strong>${by.length} of ${pluralize(required, "approval")}</strong>${by.length > 0 && ` (by ${by.join(", ")})`}: ${who}</li>`)}</ul>`;
}

function renderRevokeForm({ id }: Approval, { path, viewer }: PageContext): Html | undefined {
  if (viewer.kind !== "signed-in" || !viewer.canCommand) return undefined;
  return html`<form method="post" action="${path}/revoke">${formKeyField(viewer.formKey)}<input type="hidden" name="approval" value="${id}">
<button>Revoke</button></form>`;
}

/** Returns the Markdown of a block before it was wrapped. A title is one line of plain text. */
function markdownOf({ preview }: Approval, { kind, title }: RequestBlock): string | undefined {
  if (kind !== "text" || title === "Title") return undefined;
  return preview?.sections.flatMap((section) =>
    section.kind === "text" && section.title === title ? [section.text] : [],
  )[0];
}

/** Renders a text and, if it is Markdown, GitHub's rendering next to it. */
function renderText({ title, lines }: RequestBlock, markdown: string | undefined, context: PageContext): Html {
  const exact = html`<div class="wrap">${renderPre(lines.join("\n"))}</div>`;
  if (markdown === undefined || !/[*_`#>[\]|-]/.test(markdown)) return html`<p class="part">${title}</p>${exact}`;
  return html`<p class="part">${title}</p><div class="beside"><div><p class="small">As GitHub shows it</p>${renderMarkdownText(markdown, context.repositoryUrl)}</div><div><p class="small">The exact text</p>${exact}</div></div>`;
}

function toFiles(blocks: readonly RequestBlock[]): FileToShow[] {
  return blocks.flatMap(({ kind, title, details, lines }) =>
    kind === "diff" ? [{ name: title, lines, details }] : [],
  );
}

/** Renders the arguments, folded if there is anything else to read. */
function renderArguments({ title, lines }: RequestBlock, hasOthers: boolean): Html {
  const exact = lines.length > 0 && html`<div class="wrap">${renderPre(lines.join("\n"))}</div>`;
  return hasOthers
    ? html`<details><summary>${title}</summary>${exact}</details>`
    : html`<p class="part">${title}</p>${exact}`;
}

function renderForms(approval: Approval, context: PageContext): Html {
  const { path, viewer, threadUrl } = context;
  const { id } = approval;
  switch (viewer.kind) {
    case "anonymous":
      return html`<p>Reply in the <a href="${threadUrl}">thread</a>: <code>/approve ${id}</code> or <code>/deny ${id}</code> with a reason.</p>`;
    case "signed-out":
      return html`<p><a class="button" href="${viewer.signInPath}">Sign in with GitHub</a> to decide here, or reply in the <a href="${threadUrl}">thread</a>.</p>`;
    case "signed-in":
      if (!viewer.canCommand) return html`<p>Read-only: you need write access to approve or deny.</p>`;
  }
  const hidden = html`${formKeyField(viewer.formKey)}<input type="hidden" name="approval" value="${id}"><input type="hidden" name="digest" value="${approval.digest}">`;
  return html`<div class="answers">
<form method="post" action="${path}/approve">${hidden}
${mayBeRemembered(approval) && html`<label class="choice"><input type="checkbox" name="session" value="yes"> Don't ask again for identical calls in this run</label>`}
<button class="primary">Approve</button></form>
<form method="post" action="${path}/deny">${hidden}
<label for="reason-${id}">Reason (sent to the worker)</label><input id="reason-${id}" name="reason" maxlength="2000" autocomplete="off">
<button class="danger">Deny</button></form>
</div>
${answersOf(approval).some(({ by }) => by === viewer.login) && renderRevokeForm(approval, context)}
${renderEditForm(approval, path, hidden)}`;
}

function renderEditForm({ id, args }: Approval, path: string, hidden: Html): Html | undefined {
  const json = visibleJson(args);
  // Arguments with a redacted secret would be approved with the placeholder in its place.
  if (json.includes("[secret removed]")) return undefined;
  return html`<details><summary>Edit arguments</summary><form method="post" action="${path}/approve">${hidden}
<label for="arguments-${id}">Arguments (JSON object)</label><textarea id="arguments-${id}" name="arguments" rows="8" spellcheck="false">${json}</textarea>
<button class="primary">Approve with these arguments</button></form></details>`;
}

/** Returns equivalent JSON in which invisible characters are escaped. */
function visibleJson(value: unknown): string {
  const json = JSON.stringify(value, null, 2) ?? "{}";
  return replaceHidden(json, (hidden) =>
    Array.from({ length: hidden.length }, (_, at) => hidden.charCodeAt(at).toString(16).padStart(4, "0"))
      .map((code) => `\\u${code}`)
      .join(""),
  );
}
