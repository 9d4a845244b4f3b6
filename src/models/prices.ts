import { closestMatch } from "#text/closest-match.ts";
import { parseModelName } from "./models.ts";

/** US dollars per million tokens. */
interface Price {
  input: number;
  /** Input read from the provider's cache. */
  cached: number;
  output: number;
  /** Input written to the cache; default: the price of other input. */
  write?: number;
  /** Factors for the whole call if it has more input than `above`. */
  long?: { above: number; input: number; output: number };
}

export interface BilledCall {
  /** All input tokens, cached or not. */
  input: number;
  cacheRead: number;
  cacheWrite: number;
  output: number;
  /** Web searches by the provider. */
  searches: number;
}

const million = 1_000_000;
const long200 = { above: 200_000, input: 2, output: 1.5 };
const long272 = { above: 272_000, input: 2, output: 1.5 };

/**
 * List prices of November 2026, without batch, priority or regional rates, from platform.claude.com/docs (pricing),
 * developers.openai.com/api/docs/pricing and ai.google.dev/gemini-api/docs/pricing. Temporary discounts are not included:
 * a limit should stop a run too early rather than too late.
 */
const prices: Record<string, Price> = {
  "anthropic:claude-fable-5-2": { input: 8, cached: 0.2, write: 10, output: 40 },
  "anthropic:claude-fable-5-1": { input: 10, cached: 0.25, write: 12.5, output: 50 },
  "anthropic:claude-fable-5": { input: 10, cached: 1, write: 12.5, output: 50 },
  "anthropic:claude-opus-5-5": { input: 4, cached: 0.2, write: 5, output: 20 },
  "anthropic:claude-opus-5": { input: 5, cached: 0.5, write: 6.25, output: 25 },
  "anthropic:claude-opus-4-8": { input: 5, cached: 0.5, write: 6.25, output: 25 },
  "anthropic:claude-opus-4-7": { input: 5, cached: 0.5, write: 6.25, output: 25 },
  "anthropic:claude-opus-4-6": { input: 5, cached: 0.5, write: 6.25, output: 25 },
  "anthropic:claude-opus-4-5": { input: 5, cached: 0.5, write: 6.25, output: 25 },
  "anthropic:claude-opus-4-1": { input: 15, cached: 1.5, write: 18.75, output: 75 },
  "anthropic:claude-sonnet-5-5": { input: 2, cached: 0.1, write: 2.5, output: 10 },
  "anthropic:claude-sonnet-5": { input: 2, cached: 0.2, write: 2.5, output: 10 },
  "anthropic:claude-sonnet-4-6": { input: 3, cached: 0.3, write: 3.75, output: 15 },
  "anthropic:claude-sonnet-4-5": { input: 3, cached: 0.3, write: 3.75, output: 15, long: long200 },
  "anthropic:claude-haiku-5-5": {
    input: 0.1,
    cached: 0.01,
    write: 0.125,
    output: 0.5,
    long: { above: 100_000, input: 5, output: 5 },
  },
  "anthropic:claude-haiku-4-5": { input: 1, cached: 0.1, write: 1.25, output: 5 },

  "openai:gpt-6-astra": { input: 10, cached: 1, write: 12.5, output: 50, long: long272 },
  "openai:gpt-6.1-sol": { input: 2, cached: 0.1, write: 2.5, output: 10, long: long272 },
  "openai:gpt-6.1-terra": { input: 1, cached: 0.05, write: 1.25, output: 5, long: long272 },
  "openai:gpt-6-sol": { input: 2, cached: 0.2, write: 2.5, output: 10, long: long272 },
  "openai:gpt-6-luna": { input: 0.1, cached: 0.01, write: 0.125, output: 0.5, long: long272 },
  "openai:gpt-5.6-sol": { input: 5, cached: 0.5, write: 6.25, output: 30, long: long272 },
  "openai:gpt-5.6-terra": { input: 2, cached: 0.2, write: 2.5, output: 12, long: long272 },
  "openai:gpt-5.6-luna": { input: 0.2, cached: 0.02, write: 0.25, output: 1.2, long: long272 },
  "openai:gpt-5.5": { input: 5, cached: 0.5, output: 30, long: long272 },
  "openai:gpt-5.4": { input: 2.5, cached: 0.25, output: 15, long: long272 },
  "openai:gpt-5.4-mini": { input: 0.75, cached: 0.075, output: 4.5 },
  "openai:gpt-5.4-nano": { input: 0.2, cached: 0.02, output: 1.25 },
  "openai:gpt-5.3-codex": { input: 1.75, cached: 0.175, output: 14 },
  "openai:gpt-5.2": { input: 1.75, cached: 0.175, output: 14 },
  "openai:gpt-5.1": { input: 1.25, cached: 0.125, output: 10 },
  "openai:gpt-5": { input: 1.25, cached: 0.125, output: 10 },
  "openai:gpt-5-mini": { input: 0.25, cached: 0.025, output: 2 },
  "openai:gpt-5-nano": { input: 0.05, cached: 0.005, output: 0.4 },
  "openai:gpt-4.1": { input: 2, cached: 0.5, output: 8 },
  "openai:gpt-4.1-mini": { input: 0.4, cached: 0.1, output: 1.6 },
  "openai:gpt-4.1-nano": { input: 0.1, cached: 0.025, output: 0.4 },
  "openai:gpt-4o": { input: 2.5, cached: 1.25, output: 10 },
  "openai:gpt-4o-mini": { input: 0.15, cached: 0.075, output: 0.6 },
  "openai:o3": { input: 2, cached: 0.5, output: 8 },
  "openai:o4-mini": { input: 1.1, cached: 0.275, output: 4.4 },

  "google:gemini-4-argon": { input: 4, cached: 0.2, output: 20 },
  "google:gemini-4-carbon": { input: 4, cached: 0.2, output: 20 },
  "google:gemini-4-hydrogen": { input: 1.5, cached: 0.15, output: 7.5 },
  "google:gemini-3.8-flash": { input: 1.5, cached: 0.15, output: 7.5 },
  "google:gemini-3.5-flash": { input: 1.5, cached: 0.15, output: 9 },
  "google:gemini-3.5-flash-lite": { input: 0.3, cached: 0.03, output: 2.5 },
  "google:gemini-3.1-pro-preview": { input: 2, cached: 0.2, output: 12, long: long200 },
  "google:gemini-2.5-pro": { input: 1.25, cached: 0.125, output: 10, long: long200 },
  "google:gemini-2.5-flash": { input: 0.3, cached: 0.03, output: 2.5 },
  "google:gemini-2.5-flash-lite": { input: 0.1, cached: 0.01, output: 0.4 },
};

/** True if the cost of calls of this model is known. */
export function isPriced(model: string): boolean {
  return priceOf(model) !== undefined;
}

/** Returns the model with a known price that a misspelled name may mean. */
export function findPricedName(model: string): string | undefined {
  const provider = `${parseModelName(model).provider}:`;
  return closestMatch(
    model,
    pricedModels.filter((name) => name.startsWith(provider)),
  );
}

export const pricedModels: readonly string[] = Object.keys(prices);

/** US dollars per web search by the provider, from the same pages. */
const searchPrices: Record<string, number> = { anthropic: 0.01, openai: 0.01, google: 0.014 };

/** The cost of a call in US dollars; undefined if the model's price is unknown. */
export function costOf(
  model: string,
  { input, cacheRead, cacheWrite, output, searches }: BilledCall,
): number | undefined {
  const price = priceOf(model);
  if (!price) return undefined;

  const factor = price.long && input > price.long.above ? price.long : { input: 1, output: 1 };
  const fresh = Math.max(0, input - cacheRead - cacheWrite);
  const inputCost = fresh * price.input + cacheRead * price.cached + cacheWrite * (price.write ?? price.input);
  const tokens = (inputCost * factor.input + output * price.output * factor.output) / million;
  return tokens + searches * (searchPrices[parseModelName(model).provider] ?? 0);
}

function priceOf(model: string): Price | undefined {
  const { provider, model: name } = parseModelName(model);
  // A dated snapshot has the price of its model: claude-haiku-4-5-20251001, gpt-5-2025-08-07.
  const undated = name.replace(/-(\d{8}|\d{4}-\d{2}-\d{2})$/, "");
  const key = `${provider}:${undated}`;
  return Object.hasOwn(prices, key) ? prices[key] : undefined;
}
