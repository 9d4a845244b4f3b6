import type { RunOutcome, TokenUsage } from "#domain/run.ts";
import type { RunNode } from "#runtime/views/run-view-reader.ts";
import { type Html, html } from "./html.ts";

/** Tokens and money on one line. */
export function renderNumbers({ usage, cost }: { usage: TokenUsage; cost: number }): string {
  const tokens = `${short(usage.inputTokens)} tokens in, ${short(usage.outputTokens)} out`;
  return cost > 0 ? `${tokens} · ${dollars(cost)}` : tokens;
}

/** How much of each limit is used. */
export function renderLimits({ spec, steps, tokens, cost, workedMs, busySince }: RunNode, now: number): Html {
  const { limits } = spec.worker;
  // In tenths, so that the page changes no more often than it has something to say.
  const minutes = Math.floor((workedMs + (busySince === undefined ? 0 : Math.max(0, now - busySince))) / 6_000) / 10;
  return html`<dl class="limits">${[
    meter("Steps", steps, limits.steps, String),
    meter("Tokens", tokens, limits.tokens, short),
    meter("Cost", cost, limits.cost, dollars),
    meter("Minutes", minutes, limits.minutes, String),
  ]}</dl>`;
}

function meter(name: string, used: number, limit: number, words: (value: number) => string): Html {
  const shown = `${words(used)} of ${words(limit)}`;
  return html`<div><dt>${name}</dt><dd>${shown} <progress max="${limit}" value="${Math.min(used, limit)}" aria-label="${name}: ${shown}"></progress></dd></div>`;
}

export function describeOutcome(outcome: RunOutcome): string {
  switch (outcome.kind) {
    case "answered":
      return "done";
    case "failed":
      return `failed: ${outcome.reason}`;
    case "limited":
      return `stopped by a limit: ${outcome.reason}`;
    case "cancelled":
      return `cancelled by ${outcome.by}`;
  }
}

function dollars(amount: number): string {
  return `$${amount.toFixed(amount > 0 && amount < 1 ? 3 : 2)}`;
}

function short(count: number): string {
  return new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 }).format(count);
}
