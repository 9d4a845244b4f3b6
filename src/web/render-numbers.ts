import type { RunOutcome, TokenUsage } from "#domain/run.ts";
import type { RunNode } from "#runtime/views/run-view-reader.ts";
import { type Html, html } from "./html.ts";

/** Describes tokens and cost in one line. */
export function renderUsage({ usage, cost }: { usage: TokenUsage; cost: number }): string {
  const tokens = `${formatCount(usage.inputTokens)} tokens in, ${formatCount(usage.outputTokens)} out`;
  return cost > 0 ? `${tokens} · ${formatDollars(cost)}` : tokens;
}

/** Describes the cost of a run. A model that was used and cost nothing has no known price. */
export function describeCost({ cost, tokens, spec }: RunNode): string {
  if (isUnpriced({ cost, tokens })) return "not priced; the cost limit does not apply";
  return `${formatDollars(cost)} of ${formatDollars(spec.worker.limits.cost)}`;
}

/** Describes how long a run has worked, without the time it waited for people. */
export function describeWork(run: RunNode, now: number): string {
  const minutes = workedMinutes(run, now);
  return minutes < 1 ? `${Math.round(minutes * 60)} s` : `${Math.floor(minutes)} min`;
}

/** Shows the usage of each limit. */
export function renderLimits(run: RunNode, now: number): Html {
  const { spec, steps, tokens, cost } = run;
  const { limits } = spec.worker;
  return html`<dl class="limits">${[
    renderMeter("Steps", steps, limits.steps, String),
    renderMeter("Tokens", tokens, limits.tokens, formatCount),
    isUnpriced(run)
      ? html`<div><dt>Cost</dt><dd>not priced</dd></div>`
      : renderMeter("Cost", cost, limits.cost, formatDollars),
    renderMeter("Minutes", workedMinutes(run, now), limits.minutes, String),
  ]}</dl>`;
}

function isUnpriced({ cost, tokens }: Pick<RunNode, "cost" | "tokens">): boolean {
  return cost === 0 && tokens > 0;
}

/** Rounded down to six seconds, so that the page is updated no more often than that. */
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

function formatCount(count: number): string {
  return new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 }).format(count);
}
