import { matchesPattern } from "#text/matches-pattern.ts";

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
