export interface ModelName {
  /** `""` when the text has no colon. */
  provider: string;
  model: string;
}

/** Splits `provider:model` at the first colon only: a model's own name may hold more of them. */
export function parseModelName(text: string): ModelName {
  const colon = text.indexOf(":");
  return colon < 0 ? { provider: "", model: text } : { provider: text.slice(0, colon), model: text.slice(colon + 1) };
}
