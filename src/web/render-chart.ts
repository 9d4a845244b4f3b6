import { phaseOf, type RunState } from "#domain/run.ts";
import type { RunNode } from "#runtime/views/run-view-reader.ts";
import { type ChartState, type StateChart, stateChart } from "#runtime/views/state-chart.ts";
import { type Html, html } from "#text/html.ts";

const chart = stateChart();

/** Pixels; the drawing is scaled to the available width. */
const rowHeight = 23;
const boxHeight = 18;
const boxLeft = 96;
const boxWidth = 200;
const width = 392;
const arcStep = 7;

/** Draws the worker machine from its definition, with the current state highlighted. */
export function renderChart(state: RunState): Html {
  const { states } = chart;
  const height = states.length * rowHeight + 6;
  const current = isKnown(state) ? `The run is in the state "${labelOf(state)}"` : "The states of a run";
  const next = nextStates(state, chart);
  return html`<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="${current}. Next: ${next}.">
<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6z"/></marker><marker id="tip-lit" class="lit" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6z"/></marker></defs>
${groupsOf(states)}${edgesOf(state)}${states.map((one, row) => renderState(one, row, state))}</svg>
<p class="anywhere">${chart.anywhere.map(({ on, to }) => html`<span><b>${eventLabels[on] ?? on}</b> leads to <b>${labelOf(to)}</b> from every state</span> `)}</p>`;
}

function isKnown(state: string): boolean {
  return chart.states.some(({ name }) => name === state);
}

function renderState({ name, kind, inside }: ChartState, row: number, current: string): Html {
  const top = row * rowHeight + 6;
  const left = boxLeft + (inside === undefined ? 0 : 8);
  const size = boxWidth - (inside === undefined ? 0 : 16);
  return html`<g class="state ${kind}${name === current ? " lit" : ""}"><rect x="${left}" y="${top}" width="${size}" height="${boxHeight}" rx="${kind === "final" ? 10 : 5}"/><text x="${boxLeft + boxWidth / 2}" y="${top + 13}" text-anchor="middle">${labelOf(name)}</text></g>`;
}

/** Draws frames around states that are nested in another one. */
function groupsOf(states: readonly ChartState[]): Html[] {
  const names = [...new Set(states.flatMap(({ inside }) => inside ?? []))];
  return names.map((name) => {
    const rows = states.flatMap(({ inside }, row) => (inside === name ? [row] : []));
    const [first, last] = [Math.min(...rows), Math.max(...rows)];
    const top = first * rowHeight + 3;
    return html`<rect class="group" x="${boxLeft}" y="${top}" width="${boxWidth}" height="${(last - first) * rowHeight + boxHeight + 6}" rx="7"/>`;
  });
}

/** Draws forward transitions on the right and backward ones on the left. */
function edgesOf(current: string): Html[] {
  const row = (name: string) => chart.states.findIndex((state) => state.name === name);
  const pairs = [...new Map(chart.steps.map(({ from, to }) => [`${from} ${to}`, { from, to }])).values()];
  const drawn = pairs.map(({ from, to }) => ({ from: row(from), to: row(to), lit: from === current }));
  // Highlighted edges are drawn last, on top.
  return drawn
    .sort((a, b) => Number(a.lit) - Number(b.lit))
    .map(({ from, to, lit }) => {
      const forward = to > from;
      const side = forward ? boxLeft + boxWidth : boxLeft;
      const reach = Math.min(80, 8 + Math.abs(to - from) * arcStep) * (forward ? 1 : -1);
      const start = middleOf(from) + 4;
      const end = middleOf(to) - 4;
      const path = `M${side} ${start}C${side + reach} ${start} ${side + reach} ${end} ${side + (forward ? 2 : -2)} ${end}`;
      return html`<path class="edge${lit ? " lit" : ""}" d="${path}" marker-end="url(#tip${lit ? "-lit" : ""})"/>`;
    });
}

function middleOf(row: number): number {
  return row * rowHeight + 6 + boxHeight / 2;
}

function nextStates(state: string, { steps }: StateChart): string {
  const next = new Set(steps.filter(({ from }) => from === state).map(({ to }) => labelOf(to)));
  return next.size > 0 ? [...next].join(", ") : "none";
}

/** Returns the label of a state. States that only the machine has, such as parents, are named as in its definition. */
function labelOf(name: string): string {
  return isRunState(name) ? stateLabels[name] : name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function isRunState(name: string): name is RunState {
  return name in stateLabels;
}

const eventLabels: Record<string, string> = {
  "run.stop": "Stop",
  "run.resume": "Resume",
  "run.cancel": "Cancel",
  "run.exit": "Exit",
  "pull_request.closed": "Merging or closing the pull request",
  "pull_request.reopened": "Reopening the pull request",
  "timer.due": "The time limit",
};

/** The states of the worker machine, as people read them. */
const stateLabels: Record<RunState, string> = {
  preparing: "Starting",
  callingModel: "Waiting for the model",
  retrying: "Waiting to retry",
  evaluatingAnswer: "Reading the answer",
  reviewing: "Checking tool calls",
  evaluatingCalls: "Deciding about tool calls",
  executing: "Running tools",
  awaitingApproval: "Waiting for approval",
  awaitingAnswer: "Waiting for an answer",
  awaitingChild: "Waiting for another worker",
  checkingLimits: "Checking limits",
  awaitingBudget: "Waiting for a higher cost limit",
  idle: "Waiting for a message",
  interrupted: "Paused",
  ended: "Ended",
};

interface RunStatus {
  label: string;
  icon: string;
  tone: "good" | "bad" | "waiting" | "busy" | "neutral";
}

/** The status of a run: its outcome, or its state while it is live. */
export function statusOf(run: Pick<RunNode, "outcome" | "state" | "pullRequest">): RunStatus {
  const phase = phaseOf(run);
  switch (phase) {
    case "answered":
      return { label: "Done", icon: "✅", tone: "good" };
    case "failed":
      return { label: "Failed", icon: "❌", tone: "bad" };
    case "limited":
      return { label: "Limit reached", icon: "🛑", tone: "bad" };
    case "cancelled":
      return { label: "Cancelled", icon: "⏹️", tone: "neutral" };
    case "awaitingReview":
      return { label: "Waiting for review", icon: "👀", tone: "waiting" };
    case "paused":
      return { label: "Paused", icon: "⏸️", tone: "neutral" };
    case "awaitingBudget":
      return { label: "Cost limit reached", icon: "💰", tone: "waiting" };
    case "awaitingMessage":
    case "awaitingAnswer":
      return { label: stateLabels[run.state], icon: "💬", tone: "waiting" };
    case "awaitingApproval":
      return { label: stateLabels[run.state], icon: "🔐", tone: "waiting" };
    case "starting":
    case "working":
    case "retrying":
    case "awaitingChild":
      return { label: stateLabels[run.state], icon: "⚙️", tone: "busy" };
  }
}
