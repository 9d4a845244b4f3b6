import { createHash } from "node:crypto";
import { type Approval, approvalStats, describeApprovalStats, isRevocable } from "#domain/approval.ts";
import { branchOf, isOpenQuestion, type RunSpec } from "#domain/run.ts";
import { questionName } from "#runtime/read-log.ts";
import type { RunNode, RunTree, WritingCall } from "#runtime/views/run-view-reader.ts";
import { type Html, html, markupOf } from "#text/html.ts";
import { formKeyField, type PageContext } from "./page-context.ts";
import { renderApprovalCard } from "./render-approval.ts";
import { renderChart, statusOf } from "./render-chart.ts";
import {
  describeCost,
  describeOutcome,
  describeWork,
  renderLimits,
  renderTimeline,
  renderUsage,
} from "./render-numbers.ts";
import { renderMarkdownText, renderPre, tasksToHtml } from "./value-to-html.ts";

/** An element of the page that is replaced as a whole, found by its id. */
export interface PagePart {
  id: string;
  /** Equal for equal content. */
  version: string;
  /** The element to append a new part to. */
  into?: string;
  markup: () => string;
}

/** Returns everything on the page that changes, except the transcripts. */
export function partsOf(tree: RunTree, context: PageContext): PagePart[] {
  const [root] = tree.runs;
  if (!root) return [];
  return [
    part("status", renderStatus(tree, root, context)),
    part("outcome", renderOutcome(root, context)),
    part("questions", html`${tree.runs.map((run) => renderQuestions(run, context))}`),
    part("plan", renderPlan(root)),
    part(
      "limits",
      html`${renderLimits(root, context.now)}<p class="numbers">${renderUsage(root)}</p>${renderApprovalStats(tree)}`,
    ),
    part("timeline", renderTime(root, context.now)),
    part("workers", renderWorkers(tree.runs, context.now)),
    part("commands", renderCommands(root, context)),
    part("chart", renderChart(root.state)),
    ...shownApprovals(tree).map((approval) => approvalPart(approval, context)),
    ...tree.runs.slice(1).map((run) => childPart(run)),
    ...tree.runs.flatMap((run) => [
      ...(run === root ? [] : [part(`state-${run.spec.id}`, renderChildStatus(run, context))]),
      part(`live-${run.spec.id}`, renderLive(run, context)),
    ]),
  ];
}

/** Returns the first line of a run's task, or else the title of its issue or pull request. */
export function titleOf({ task, threadTitle, worker, origin }: RunSpec): string {
  return task?.trim().split("\n", 1)[0]?.slice(0, 200) || threadTitle || `${worker.name} on #${origin.thread}`;
}

/** Returns the title of the page. The status comes first, since tabs are narrow. */
export function pageTitle({ runs: [root] }: RunTree): string {
  if (!root) return "Run";
  const { worker, origin } = root.spec;
  return `${statusOf(root).icon} ${worker.name} · ${origin.owner}/${origin.repo}#${origin.thread}`;
}

function part(id: string, content: Html): PagePart {
  const markup = markupOf(html`<div id="${id}">${content}</div>`);
  return { id, version: createHash("sha1").update(markup).digest("base64url").slice(0, 12), markup: () => markup };
}

function renderApprovalStats({ approvals }: RunTree): Html | undefined {
  const described = describeApprovalStats(approvalStats(approvals));
  return described === undefined ? undefined : html`<p class="numbers">${described}</p>`;
}

/** Returns the approvals that people can act on: pending ones, and revocable ones of live runs. */
export function shownApprovals({ approvals, runs }: RunTree): Approval[] {
  const live = new Set(runs.filter(({ outcome }) => outcome === undefined).map(({ spec }) => spec.id));
  return approvals.filter(
    (approval) => approval.status === "pending" || (isRevocable(approval) && live.has(approval.runId)),
  );
}

/** Returns the part of an approval. It is rendered only when its version is new, because it may be long. */
function approvalPart(approval: Approval, context: PageContext): PagePart {
  return {
    id: `approval-${approval.id}`,
    version: `${approval.digest.slice(0, 12)} ${approval.status} ${approval.revision ?? 0}`,
    into: "approvals",
    markup: () => markupOf(renderApprovalCard(approval, context)),
  };
}

/** Renders the section of a new child run. Its transcript then grows entry by entry. */
function childPart({ spec }: RunNode): PagePart {
  const { id } = spec;
  const content = html`<div id="state-${id}"></div><ol class="transcript" id="entries-${id}"></ol><div id="live-${id}"></div>`;
  return {
    id: `run-${id}`,
    version: "child",
    into: "children",
    markup: () => markupOf(renderChild({ spec }, content)),
  };
}

export function renderChild({ spec }: Pick<RunNode, "spec">, content: Html): Html {
  return html`<section class="run depth-${Math.min(spec.depth, 4)}" id="run-${spec.id}" aria-labelledby="run-${spec.id}-title">
<h3 id="run-${spec.id}-title">${spec.workerPath}</h3>${content}</section>`;
}

export function renderBadge(run: Parameters<typeof statusOf>[0]): Html {
  const { label, icon, tone } = statusOf(run);
  return html`<span class="badge ${tone}"><span aria-hidden="true">${icon}</span> ${label}</span>`;
}

function renderStatus(tree: RunTree, run: RunNode, { now, repositoryUrl }: PageContext): Html {
  const { worker, model } = run.spec;
  const { pullRequest, base } = run;
  const link =
    pullRequest !== undefined &&
    html`<a href="${repositoryUrl}/pull/${pullRequest}" rel="noopener">Pull request #${pullRequest}</a>`;
  const pending = tree.approvals.filter(({ status }) => status === "pending");
  const review =
    pending[0] &&
    html`<a class="button primary" href="#approval-${pending[0].id}">Review ${pending.length === 1 ? "the request" : `${pending.length} requests`}</a>`;
  return html`<p class="status">${renderBadge(run)} ${review} ${link} ${base !== undefined && html`<span class="branches"><code>${branchOf(run.spec)}</code> → <code>${base}</code></span>`}</p>
<p class="status small"><span><b>${worker.name}</b> with <code>${model}</code></span> <span>working time: ${describeWork(run, now)}</span> <span>cost: ${describeCost(run)}</span></p>`;
}

/** Renders the workers of a run as a tree, each with its usage of the limits. */
function renderWorkers(runs: readonly RunNode[], now: number): Html {
  if (runs.length < 2) return html``;
  const renderLevel = (parentId: string | undefined): Html | undefined => {
    const level = runs.filter(({ spec }) => spec.parentId === parentId);
    if (level.length === 0) return undefined;
    return html`<ul>${level.map(
      (run) =>
        html`<li><a href="#run-${run.spec.id}">${run.spec.worker.name}</a> ${renderBadge(run)} <span class="small">${run.steps} of ${run.spec.worker.limits.steps} steps · ${describeCost(run)} · ${describeWork(run, now)}</span>${renderLevel(run.spec.id)}</li>`,
    )}</ul>`;
  };
  return html`<section class="workers" aria-labelledby="workers-title"><h2 id="workers-title">Workers</h2>${renderLevel(undefined)}</section>`;
}

function renderOutcome({ outcome, activity, state }: RunNode, context: PageContext): Html {
  // The request or question below already shows this.
  if (!outcome && (state === "awaitingApproval" || state === "awaitingAnswer")) return html``;
  if (!outcome)
    return html`<p class="activity">${activity}</p>${state === "awaitingBudget" && renderRaiseForm(context)}`;
  const answer = outcome.kind === "answered" ? outcome.text.trim() : "";
  return html`<section class="card outcome ${outcome.kind === "answered" ? "" : "failed"}" aria-label="Result"><h2>${describeOutcome(outcome)}</h2>${answer !== "" && renderMarkdownText(answer, context.repositoryUrl)}</section>`;
}

function renderRaiseForm({ viewer, path }: PageContext): Html | undefined {
  if (viewer.kind !== "signed-in" || !viewer.canCommand) return undefined;
  return html`<form method="post" action="${path}/approve">${formKeyField(viewer.formKey)}<label for="raise">Raise the cost limit by (US dollars)</label><input id="raise" name="raise" inputmode="decimal" value="1" maxlength="10" required><button class="primary">Raise the limit</button></form>`;
}

function renderPlan({ tasks }: RunNode): Html {
  if (tasks.length === 0) return html``;
  const done = tasks.filter(({ status }) => status === "completed").length;
  const [current] = tasks.filter(({ status }) => status === "in_progress");
  return html`<details class="plan" ${done < tasks.length && html`open`}><summary><b>Plan ${done}/${tasks.length}</b> ${current && (current.activeForm || current.content)}</summary>${tasksToHtml(tasks)}</details>`;
}

function renderChildStatus(run: RunNode, { now }: PageContext): Html {
  const { activity, outcome, spec, tasks } = run;
  return html`<p class="status">${renderBadge(run)} ${outcome ? describeOutcome(outcome) : activity} <span class="small"><code>${spec.model}</code> · ${renderUsage(run)}</span></p>${tasks.length > 0 && tasksToHtml(tasks)}<details><summary>Limits</summary>${renderLimits(run, now)}</details>`;
}

/** Renders the running tool calls, and the end of the output that the model or a tool is streaming. */
function renderLive(run: RunNode, { repositoryUrl }: PageContext): Html {
  const { live, openCalls, calls, outcome, state } = run;
  const running = outcome
    ? []
    : openCalls.filter(({ answeredBy, status }) => answeredBy === "tool" && status === "running");
  const rows = running.map(
    ({ callId, tool }) =>
      html`<p class="running">⏳ <code>${tool}</code> <span class="arguments">${calls.get(callId)?.args ?? ""}</span></p>`,
  );
  const text =
    live &&
    live.text.trim() !== "" &&
    (state === "callingModel" ? renderMarkdownText(live.text, repositoryUrl) : renderPre(live.text));
  const writing = live?.writing && html`<p class="running">✍️ ${describeWriting(live.writing)}</p>`;
  return rows.length > 0 || text || writing
    ? html`<div class="live" role="group" aria-label="In progress">${rows}${text}${writing}</div>`
    : html``;
}

function describeWriting({ tool, path, length }: WritingCall): Html {
  const size = length < 1_000 ? "" : ` … ${Math.floor(length / 1_000)} KB`;
  if (path !== undefined && /write|create/.test(tool)) return html`Writing <code>${path}</code>${size}`;
  return html`Preparing <code>${tool}</code>${path !== undefined && html` for <code>${path}</code>`}${size}`;
}

function renderCommands({ outcome, state, pullRequest }: RunNode, { viewer, path, threadUrl }: PageContext): Html {
  const thread = html`<a href="${threadUrl}">thread</a>`;
  const canRetry = viewer.kind === "signed-in" && viewer.canCommand;
  if (outcome) {
    return html`<p class="small">This run has ended. Start another from the ${thread}.</p>${canRetry && renderRetry(viewer.formKey, path, "Starts the task again from the beginning.")}`;
  }
  switch (viewer.kind) {
    case "anonymous":
      return html`<p class="small">This page is read-only. Reply in the ${thread} to approve or stop.</p>`;
    case "signed-out":
      return html`<p><a class="button" href="${viewer.signInPath}">Sign in with GitHub</a> <span class="small">to approve, reply or stop from this page.</span></p>`;
    case "signed-in":
      if (!viewer.canCommand) {
        return html`<p class="small">Read-only: you need write access to approve or stop.</p>`;
      }
  }
  const key = formKeyField(viewer.formKey);
  const isPaused = state === "interrupted";
  const label = isPaused ? "Resume with instructions (optional)" : "Message the worker";
  return html`${state === "retrying" && renderRetry(viewer.formKey, path, "Calls the model again at once.")}<form method="post" action="${path}/${isPaused ? "resume" : "say"}">${key}
<label for="text">${label}</label><textarea id="text" name="text" rows="2" maxlength="20000" ${isPaused ? "" : html`required`}></textarea>
<button class="primary">${isPaused ? "Resume" : "Send"}</button></form>
${!isPaused && html`<form method="post" action="${path}/stop">${key}<button>Stop</button> <span class="small">Pauses all workers in this thread; you can resume them.</span></form>`}
${
  pullRequest !== undefined &&
  html`<form method="post" action="${path}/update">${key}<button>Merge the base branch</button> <span class="small">Asks the worker to merge it into #${pullRequest}.</span></form>
<form method="post" action="${path}/ready">${key}<button>Ready for review</button> <span class="small">Marks the draft #${pullRequest} as ready for review.</span></form>
<form method="post" action="${path}/undo">${key}<button>Undo the last push</button> <span class="small">Shows in the thread what a new commit would undo, and asks you to confirm it there.</span></form>`
}
<details><summary>Model</summary><form method="post" action="${path}/model">${key}<label for="model">Model for the next calls (leave empty to list the available ones)</label><input id="model" name="model" maxlength="200" autocomplete="off"><button>Switch</button></form></details>
<details><summary>End</summary><form method="post" action="${path}/exit">${key}<button>End this run</button> <span class="small">Keeps what it has done as its result.</span></form></details>
<details><summary>Cancel</summary><form method="post" action="${path}/cancel">${key}<button class="bad">Cancel all workers</button> <span class="small">Ends all workers in this thread for good.</span></form></details>`;
}

function renderRetry(formKey: string, path: string, effect: string): Html {
  return html`<form method="post" action="${path}/retry">${formKeyField(formKey)}<button>Try again</button> <span class="small">${effect}</span></form>`;
}

function renderTime(run: RunNode, now: number): Html {
  const timeline = renderTimeline(run, now);
  return timeline ? html`<h2 id="time-title">Time</h2>${timeline}` : html``;
}

/** Renders the open questions of a run, with buttons for the suggested answers. */
function renderQuestions({ openCalls, calls, spec, steps, outcome }: RunNode, context: PageContext): Html[] {
  if (outcome) return [];
  const open = openCalls.filter(isOpenQuestion);
  return open.map(({ callId }) => {
    const call = calls.get(callId);
    const { question = call?.args ?? "", options = [] } = call?.question ?? {};
    return html`<article class="card question" aria-label="Question"><h2>💬 ${spec.workerPath} asks</h2>${renderMarkdownText(question, context.repositoryUrl)}${renderAnswerForms(questionName(spec.id, steps, callId), options, context)}</article>`;
  });
}

function renderAnswerForms(name: string, options: readonly string[], { viewer, path, threadUrl }: PageContext): Html {
  if (viewer.kind !== "signed-in" || !viewer.canCommand) {
    const how =
      viewer.kind === "signed-in"
        ? "Read-only: you need write access to answer."
        : html`Anyone with write access can answer with a comment in the <a href="${threadUrl}">thread</a>.`;
    return html`${options.length > 0 && html`<ul>${options.map((option) => html`<li>${option}</li>`)}</ul>`}<p class="small">${how}</p>`;
  }
  const key = html`${formKeyField(viewer.formKey)}<input type="hidden" name="question" value="${name}">`;
  return html`${options.length > 0 && html`<form method="post" action="${path}/say" class="options">${key}${options.map((option) => html`<button name="text" value="${option}">${option}</button>`)}</form>`}
<form method="post" action="${path}/say" class="answer">${key}<label for="${name}">Your answer</label><input id="${name}" name="text" maxlength="20000" autocomplete="off" required><button class="primary">Answer</button></form>`;
}
