import { closestMatch } from "#text/closest-match.ts";
import { matchesPattern } from "#text/path-pattern.ts";

/** The providers of models, by the name before the colon. */
export const providerNames = ["anthropic", "openai", "google", "compatible"] as const;

export interface ModelName {
  /** `""` if the text has no colon. */
  provider: string;
  model: string;
}

/** Splits `provider:model` at the first colon. The model's own name may contain more colons. */
export function parseModelName(text: string): ModelName {
  const colon = text.indexOf(":");
  return colon < 0 ? { provider: "", model: text } : { provider: text.slice(0, colon), model: text.slice(colon + 1) };
}

/**
 * True if a model, `provider:model`, matches one of the patterns, in which `*` stands for any text: `anthropic:*`,
 * `anthropic:claude-haiku-*`. Without patterns, every model matches.
 */
export function modelMatches(patterns: readonly string[] | undefined, model: string): boolean {
  return patterns === undefined || patterns.some((pattern) => matchesPattern(pattern, model));
}

/** Explains why a name cannot be that of a model, whatever is configured; undefined if it can. */
export function findModelNameProblem(name: string): string | undefined {
  const { provider, model } = parseModelName(name);
  if (!provider || !model) {
    return `"${name}" is not a model name. Write provider:model, such as ${providerNames[0]}:claude-haiku-4-5.`;
  }
  if (providerNames.some((known) => known === provider)) return undefined;
  const match = closestMatch(provider, providerNames);
  const advice = match ? `Did you mean ${match}:${model}?` : `The providers are ${providerNames.join(", ")}.`;
  return `There is no provider ${provider} for the model ${name}. ${advice}`;
}
