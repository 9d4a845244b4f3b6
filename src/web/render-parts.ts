import { createHash } from "node:crypto";
import type { Approval } from "#domain/approval.ts";
import type { RunNode, RunTree } from "#runtime/views/run-view-reader.ts";
import { type Html, html, markupOf } from "./html.ts";
import type { PageContext } from "./page-context.ts";
import { renderApproval } from "./render-approval.ts";
import { renderChart } from "./render-chart.ts";
import { describeOutcome, renderLimits, renderNumbers } from "./render-numbers.ts";
import { block, renderTasks, renderWords } from "./render-value.ts";

/** An element of the page that changes as a whole, by its id. */
export interface PagePart {
  id: string;
  /** Equal for equal content. */
  version: string;
  /** The element that it is put into when it is new. */
  into?: string;
  markup: () => string;
}

/** Everything on the page that changes, but the transcripts. */
export function partsOf(tree: RunTree, context: PageContext): PagePart[] {
  const [root] = tree.runs;
  if (!root) return [];
  return [
    part("now", renderNow(root, context)),
    part("chart", renderChart(root.state)),
    part("limits", html`${renderLimits(root, context.now)}<p class="numbers">${renderNumbers(root)}</p>`),
    part("commands", renderCommands(root, context)),
    ...tree.approvals.filter(({ status }) => status === "pending").map((approval) => approvalPart(approval, context)),
    ...tree.runs.slice(1).map((lane) => lanePart(lane)),
    ...tree.runs.flatMap((lane) => [
      ...(lane === root ? [] : [part(`state-${lane.spec.id}`, renderLaneState(lane, context))]),
      part(`live-${lane.spec.id}`, renderLive(lane)),
    ]),
  ];
}

/** The page's title: what matters first, for a narrow tab. */
export function pageTitle({ runs: [root] }: RunTree): string {
  if (!root) return "A run";
  const { worker, origin } = root.spec;
  return `${signOf(root)} ${worker.name} · ${origin.owner}/${origin.repo}#${origin.thread}`;
}

function part(id: string, content: Html): PagePart {
  const markup = markupOf(html`<div id="${id}">${content}</div>`);
  return { id, version: createHash("sha1").update(markup).digest("base64url").slice(0, 12), markup: () => markup };
}

/** Its preview may be long, and never changes: it is drawn only where it is new. */
function approvalPart(approval: Approval, context: PageContext): PagePart {
  return {
    id: `approval-${approval.id}`,
    version: approval.digest.slice(0, 12),
    into: "approvals",
    markup: () => markupOf(renderApproval(approval, context)),
  };
}

/** A child's transcript begins where it is new, and then only grows. */
function lanePart({ spec }: RunNode): PagePart {
  const { id } = spec;
  const content = html`<div id="state-${id}"></div><ol class="transcript" id="entries-${id}"></ol><div id="live-${id}"></div>`;
  return { id: `run-${id}`, version: "lane", into: "lanes", markup: () => markupOf(renderLane({ spec }, content)) };
}

/** A child's run below its parent's. */
export function renderLane({ spec }: Pick<RunNode, "spec">, content: Html): Html {
  return html`<section class="lane depth-${Math.min(spec.depth, 4)}" id="run-${spec.id}" aria-labelledby="run-${spec.id}-title">
<h3 id="run-${spec.id}-title">${spec.workerPath}</h3>${content}</section>`;
}

function renderNow(lane: RunNode, { repositoryUrl }: PageContext): Html {
  const { activity, outcome, tasks, state, spec } = lane;
  return html`<p class="state"><strong>${signOf(lane)} ${outcome ? describeOutcome(outcome) : activity}</strong></p>
${outcome?.kind === "answered" && outcome.text.trim() !== "" && html`<section class="outcome" aria-label="Its answer">${renderWords(outcome.text, repositoryUrl)}</section>`}
${renderQuestions(lane)}${tasks.length > 0 && renderTasks(tasks)}
<p class="small">State <code>${state}</code> · model <code>${spec.model}</code></p>`;
}

function renderLaneState(lane: RunNode, { now }: PageContext): Html {
  const { activity, outcome, state, spec, tasks } = lane;
  return html`<p class="state">${signOf(lane)} ${outcome ? describeOutcome(outcome) : activity} <span class="small">State <code>${state}</code> · model <code>${spec.model}</code> · ${renderNumbers(lane)}</span></p>${renderQuestions(lane)}${tasks.length > 0 && renderTasks(tasks)}<details><summary>Limits</summary>${renderLimits(lane, now)}</details>`;
}

function renderLive({ live }: RunNode): Html {
  return live && live.text.trim() !== ""
    ? html`<div class="live" aria-label="Right now">${block(live.text)}</div>`
    : html``;
}

function renderCommands({ outcome, state }: RunNode, { viewer, path, threadUrl }: PageContext): Html {
  if (outcome)
    return html`<p class="small">It is over. Start another one <a href="${threadUrl}">in the thread</a>.</p>`;
  switch (viewer.kind) {
    case "anonymous":
      return html`<p class="small">This page only shows. Answer, stop and steer <a href="${threadUrl}">in the thread</a>.</p>`;
    case "signed-out":
      return html`<p><a class="button" href="${viewer.signInPath}">Sign in with GitHub</a> <span class="small">to answer, stop and steer from here.</span></p>`;
    case "signed-in":
      if (!viewer.canCommand)
        return html`<p class="small">You may watch. Commanding takes write access to the repository.</p>`;
  }
  const hidden = html`<input type="hidden" name="form" value="${viewer.formKey}">`;
  const isStopped = state === "interrupted";
  const label =
    state === "awaitingAnswer"
      ? "Answer its question"
      : isStopped
        ? "Go on, with a word from you"
        : "Tell it something";
  return html`<form method="post" action="${path}/${isStopped ? "resume" : "say"}" class="say">${hidden}
<label for="text">${label}</label><textarea id="text" name="text" rows="2" maxlength="20000" ${isStopped ? "" : html`required`}></textarea>
<button>${isStopped ? "Resume" : "Send"}</button></form>
${!isStopped && html`<form method="post" action="${path}/stop">${hidden}<button class="bad">Stop</button> <span class="small">stops every run of the thread; they can go on.</span></form>`}`;
}

/** What it asked people and nobody answered yet. */
function renderQuestions({ openCalls, calls }: RunNode): Html[] {
  const open = openCalls.filter(({ answeredBy, status }) => answeredBy === "person" && status === "running");
  return open.map(({ callId }) => html`<p class="question">${calls.get(callId)?.args ?? ""}</p>`);
}

/** One sign for how a run stands. */
function signOf({ outcome, state }: RunNode): string {
  switch (outcome?.kind) {
    case "answered":
      return "✅";
    case "failed":
      return "❌";
    case "limited":
      return "🛑";
    case "cancelled":
      return "⏹️";
  }
  switch (state) {
    case "interrupted":
      return "⏸️";
    case "idle":
    case "awaitingAnswer":
      return "💬";
    case "awaitingApproval":
      return "🔐";
    case "preparing":
    case "callingModel":
    case "retrying":
    case "evaluatingAnswer":
    case "reviewing":
    case "evaluatingCalls":
    case "executing":
    case "awaitingChild":
    case "checkingLimits":
    case "ended":
      return "⚙️";
  }
}
