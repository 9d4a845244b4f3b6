import { matchesPattern } from "#text/matches-pattern.ts";

/**
 * True when a model, `provider:model`, fits one of the patterns, in which `*` stands for any text:
 * `anthropic:*`, `anthropic:claude-haiku-*`. Without patterns every model fits.
 */
export function modelMatches(patterns: readonly string[] | undefined, model: string): boolean {
  return patterns === undefined || patterns.some((pattern) => matchesPattern(pattern, model));
}
