import type { RunState } from "#domain/run.ts";
import { type ChartState, type StateChart, stateChart } from "#runtime/views/state-chart.ts";
import { type Html, html } from "./html.ts";

const chart = stateChart();

/** Pixels of the drawing; it is scaled to the room there is. */
const rowHeight = 23;
const boxHeight = 18;
const boxLeft = 96;
const boxWidth = 148;
const width = 340;
const arcStep = 7;

/** The worker machine, drawn from its own definition, with the state a run is in lit. */
export function renderChart(state: RunState): Html {
  const { states } = chart;
  const height = states.length * rowHeight + 6;
  const words = isKnown(state) ? `The run is in the state ${inWords(state)}` : "The states of a run";
  const ways = waysFrom(state, chart);
  return html`<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="${words}. From here: ${ways}.">
<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6z"/></marker><marker id="tip-lit" class="lit" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6z"/></marker></defs>
${groupsOf(states)}${edgesOf(state)}${states.map((one, row) => renderState(one, row, state))}</svg>
<p class="anywhere">${chart.anywhere.map(({ on, to }) => html`<span><code>${on}</code> leads to <b>${inWords(to)}</b> from anywhere</span> `)}</p>`;
}

function isKnown(state: string): boolean {
  return chart.states.some(({ name }) => name === state);
}

function renderState({ name, kind, inside }: ChartState, row: number, current: string): Html {
  const top = row * rowHeight + 6;
  const left = boxLeft + (inside === undefined ? 0 : 8);
  const size = boxWidth - (inside === undefined ? 0 : 16);
  return html`<g class="state ${kind}${name === current ? " lit" : ""}"><rect x="${left}" y="${top}" width="${size}" height="${boxHeight}" rx="${kind === "final" ? 10 : 5}"/><text x="${boxLeft + boxWidth / 2}" y="${top + 13}" text-anchor="middle">${inWords(name)}</text></g>`;
}

/** A frame around the states that lie in another one. */
function groupsOf(states: readonly ChartState[]): Html[] {
  const names = [...new Set(states.flatMap(({ inside }) => inside ?? []))];
  return names.map((name) => {
    const rows = states.flatMap(({ inside }, row) => (inside === name ? [row] : []));
    const [first, last] = [Math.min(...rows), Math.max(...rows)];
    const top = first * rowHeight + 3;
    return html`<rect class="group" x="${boxLeft}" y="${top}" width="${boxWidth}" height="${(last - first) * rowHeight + boxHeight + 6}" rx="7"/>`;
  });
}

/** Steps forward go along the right, steps back along the left; the next row is reached straight. */
function edgesOf(current: string): Html[] {
  const row = (name: string) => chart.states.findIndex((state) => state.name === name);
  const pairs = [...new Map(chart.steps.map(({ from, to }) => [`${from} ${to}`, { from, to }])).values()];
  const drawn = pairs.map(({ from, to }) => ({ from: row(from), to: row(to), lit: from === current }));
  // What is lit lies on top.
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

function waysFrom(state: string, { steps }: StateChart): string {
  const ways = new Set(steps.filter(({ from }) => from === state).map(({ to }) => inWords(to)));
  return ways.size > 0 ? [...ways].join(", ") : "nothing more";
}

/** `awaitingApproval` as `awaiting approval`. */
function inWords(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
