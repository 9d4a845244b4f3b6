import type { RunOutcome, TokenUsage } from "#domain/run.ts";
import type { RunNode } from "#runtime/views/run-view-reader.ts";
import { type Html, html } from "#text/html.ts";
import { compactCount } from "#text/pluralize.ts";

/** Describes tokens and cost in one line. */
export function renderUsage({ usage, cost }: { usage: TokenUsage; cost: number }): string {
  const tokens = `${compactCount(usage.inputTokens)} tokens in, ${compactCount(usage.outputTokens)} out`;
  return cost > 0 ? `${tokens} · ${formatDollars(cost)}` : tokens;
}

/** Describes the cost of a run. A model that was used at no cost has an unknown price. */
export function describeCost({ cost, tokens, spec }: Pick<RunNode, "cost" | "tokens" | "spec">): string {
  if (isUnpriced({ cost, tokens })) return "not priced; the cost limit does not apply";
  return `${formatDollars(cost)} of ${formatDollars(spec.worker.limits.cost)}`;
}

/** Describes the working time of a run, without the time it waited for people. */
export function describeWork(run: RunNode, now: number): string {
  const minutes = workedMinutes(run, now);
  return minutes < 1 ? `${Math.round(minutes * 60)} s` : `${Math.floor(minutes)} min`;
}

/** Renders a relative time, with the exact one as its title. The page's script keeps it up to date. */
export function renderTime(at: number, now: number): Html {
  const exact = new Date(at).toISOString();
  const age = now - at;
  const text = age < 10_000 ? "just now" : `${describeSpan(age)} ago`;
  return html`<time datetime="${exact}" title="${exact.slice(0, 19).replace("T", " ")} UTC">${text}</time>`;
}

/** Describes a duration in its largest unit: "0.4 s", "12 s", "5 min", "3 h", "2 d". */
export function describeSpan(ms: number): string {
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  return ms < 86_400_000 ? `${Math.floor(ms / 3_600_000)} h` : `${Math.floor(ms / 86_400_000)} d`;
}

const spanNames = { model: "Model", tools: "Tools", people: "Waiting for people" } as const;
/** The maximum share of the timeline for waiting for people, which may take days. */
const maxPeopleShare = 0.25;

/** Draws a timeline of a run's phases, with the totals as text. */
export function renderTimeline({ timeline, state, outcome, busySince }: RunNode, now: number): Html | undefined {
  const last = timeline.at(-1);
  if (!last || last.to - (timeline[0]?.from ?? 0) < 1_000) return undefined;
  // Rounded, so that the page is not updated constantly.
  const step = busySince === undefined ? 60_000 : 6_000;
  const current = { kind: kindOfState(state), from: last.to, to: Math.max(Math.floor(now / step) * step, last.to) };
  const spans = outcome ? timeline : [...timeline, current];
  const totals = { model: 0, tools: 0, people: 0 };
  for (const { kind, from, to } of spans) totals[kind] += to - from;
  const work = Math.max(1, totals.model + totals.tools);
  const scale = Math.min(1, (work * maxPeopleShare) / (1 - maxPeopleShare) / Math.max(1, totals.people));
  const width = work + totals.people * scale;
  let left = 0;
  const bars = spans.map(({ kind, from, to }) => {
    const length = ((to - from) * (kind === "people" ? scale : 1) * timelineWidth) / width;
    const bar = html`<rect class="${kind}" x="${left.toFixed(1)}" y="0" width="${length.toFixed(1)}" height="14"><title>${spanNames[kind]}: ${describeSpan(to - from)}</title></rect>`;
    left += length;
    return bar;
  });
  const kinds = (["model", "tools", "people"] as const).filter((kind) => totals[kind] >= 50);
  const words = kinds.map(
    (kind) => html`<li class="${kind}">${spanNames[kind]} <b>${describeSpan(totals[kind])}</b></li>`,
  );
  return html`<svg class="timeline" viewBox="0 0 ${timelineWidth} 14" preserveAspectRatio="none" aria-hidden="true">${bars}</svg><ul class="legend">${words}</ul>`;
}

const timelineWidth = 600;

function kindOfState(state: RunNode["state"]): keyof typeof spanNames {
  switch (state) {
    case "callingModel":
    case "retrying":
      return "model";
    case "preparing":
    case "evaluatingAnswer":
    case "reviewing":
    case "evaluatingCalls":
    case "executing":
    case "awaitingChild":
    case "checkingLimits":
      return "tools";
    case "awaitingApproval":
    case "awaitingAnswer":
    case "awaitingBudget":
    case "idle":
    case "interrupted":
    case "ended":
      return "people";
  }
}

/** Shows the usage of each limit. */
export function renderLimits(run: RunNode, now: number): Html {
  const { spec, steps, tokens, cost } = run;
  const { limits } = spec.worker;
  return html`<dl class="limits">${[
    renderMeter("Steps", steps, limits.steps, String),
    renderMeter("Tokens", tokens, limits.tokens, compactCount),
    isUnpriced(run)
      ? html`<div><dt>Cost</dt><dd>not priced</dd></div>`
      : renderMeter("Cost", cost, limits.cost, formatDollars),
    renderMeter("Minutes", workedMinutes(run, now), limits.minutes, String),
  ]}</dl>`;
}

export function isUnpriced({ cost, tokens }: Pick<RunNode, "cost" | "tokens">): boolean {
  return cost === 0 && tokens > 0;
}

/** Returns the minutes worked, rounded down to six seconds so that the page is updated no more often than that. */
function workedMinutes({ workedMs, busySince }: RunNode, now: number): number {
  return Math.floor((workedMs + (busySince === undefined ? 0 : Math.max(0, now - busySince))) / 6_000) / 10;
}

function renderMeter(name: string, used: number, limit: number, format: (value: number) => string): Html {
  const text = `${format(used)} of ${format(limit)}`;
  return html`<div><dt>${name}</dt><dd>${text} <progress max="${limit}" value="${Math.min(used, limit)}" aria-label="${name}: ${text}"></progress></dd></div>`;
}

export function describeOutcome(outcome: RunOutcome): string {
  switch (outcome.kind) {
    case "answered":
      return "Done";
    case "failed":
      return `Failed: ${outcome.reason}`;
    case "limited":
      return `Limit reached: ${outcome.reason}`;
    case "cancelled":
      return `Cancelled by ${outcome.by}`;
  }
}

export function formatDollars(amount: number): string {
  return `$${amount.toFixed(amount > 0 && amount < 1 ? 3 : 2)}`;
}
