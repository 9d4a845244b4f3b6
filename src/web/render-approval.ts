import type { Approval } from "#domain/approval.ts";
import { isShownWhole } from "#domain/preview.ts";
import { replaceHidden } from "#text/hidden-characters.ts";
import { type RequestBlock, requestBlocks } from "#ui/request-blocks.ts";
import { type Html, html } from "./html.ts";
import type { Viewer } from "./page-context.ts";
import { block, renderDiff } from "./render-value.ts";

/** A request that waits, with all that would change, and the forms that decide it. */
export function renderApproval(
  approval: Approval,
  { path, viewer, threadUrl }: { path: string; viewer: Viewer; threadUrl: string },
): Html {
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
  return html`<article class="approval" id="approval-${id}" aria-labelledby="approval-${id}-title">
<h2 id="approval-${id}-title">🔐 ${workerPath} asks for approval <code>${id}</code></h2>
<p>${reason}</p>
<p>Tool <code>${tool}</code></p>
${blocks.map((part) => renderBlock(part, part.kind === "arguments" && blocks.length > 1))}
${renderForms(approval, { path, viewer, threadUrl })}
<p class="small">${approvers} may approve, until <time datetime="${new Date(expiresAt).toISOString()}">${new Date(expiresAt).toISOString().slice(0, 16).replace("T", " ")} UTC</time>. Only exactly this call is approved, once: digest <code>${digest.slice(0, 12)}</code>, on commit <code>${baseCommit.slice(0, 7)}</code>.</p>
</article>`;
}

function renderBlock({ kind, title, details, lines }: RequestBlock, folded: boolean): Html {
  const text = lines.join("\n");
  const content =
    lines.length === 0 ? undefined : kind === "diff" ? renderDiff(text) : html`<div class="wrap">${block(text)}</div>`;
  if (folded) return html`<details><summary>${title}</summary>${content}</details>`;
  const heading = kind === "diff" ? html`<code>${title}</code> ${details}` : title;
  return html`<p class="part">${heading}</p>${content}`;
}

function renderForms(
  approval: Approval,
  { path, viewer, threadUrl }: { path: string; viewer: Viewer; threadUrl: string },
): Html {
  const { id } = approval;
  switch (viewer.kind) {
    case "anonymous":
      return html`<p>Answer <a href="${threadUrl}">in the thread</a>: <code>/approve ${id}</code> or <code>/deny ${id} because …</code></p>`;
    case "signed-out":
      return html`<p><a class="button" href="${viewer.signInPath}">Sign in with GitHub</a> to answer here, or answer <a href="${threadUrl}">in the thread</a>.</p>`;
    case "signed-in":
      if (!viewer.canCommand) return html`<p>You may watch. Approving takes write access to the repository.</p>`;
  }
  const hidden = html`<input type="hidden" name="form" value="${viewer.formKey}"><input type="hidden" name="approval" value="${id}"><input type="hidden" name="digest" value="${approval.digest}">`;
  return html`<div class="answers">
<form method="post" action="${path}/approve">${hidden}
${isShownWhole(approval.preview) && html`<label class="choice"><input type="checkbox" name="session" value="yes"> Don't ask again for identical calls in this run</label>`}
<button class="good">Approve</button></form>
<form method="post" action="${path}/deny">${hidden}
<label for="reason-${id}">Why not?</label><input id="reason-${id}" name="reason" maxlength="2000" autocomplete="off" placeholder="It is told to the worker">
<button class="bad">Deny</button></form>
${renderChange(approval, path, hidden)}
</div>`;
}

function renderChange({ id, args }: Approval, path: string, hidden: Html): Html | undefined {
  const json = visibleJson(args);
  // What was taken out would be approved as if it were meant.
  if (json.includes("[secret removed]")) return undefined;
  return html`<details><summary>Approve with other arguments</summary><form method="post" action="${path}/approve">${hidden}
<label for="arguments-${id}">Arguments, as a JSON object</label><textarea id="arguments-${id}" name="arguments" rows="8" spellcheck="false">${json}</textarea>
<button class="good">Approve with these arguments</button></form></details>`;
}

/** JSON that means the same and hides nothing: what cannot be seen is written as an escape. */
function visibleJson(value: unknown): string {
  const json = JSON.stringify(value, null, 2) ?? "{}";
  return replaceHidden(json, (hidden) =>
    Array.from({ length: hidden.length }, (_, at) => hidden.charCodeAt(at).toString(16).padStart(4, "0"))
      .map((code) => `\\u${code}`)
      .join(""),
  );
}
