/**
 * True when a model, `provider:model`, fits one of the patterns, in which `*` stands for any text:
 * `anthropic:*`, `anthropic:claude-haiku-*`. Without patterns every model fits.
 */
export function modelMatches(patterns: readonly string[] | undefined, model: string): boolean {
  return patterns === undefined || patterns.some((pattern) => matches(pattern, model));
}

// Not a regular expression: patterns come from repositories, and `*a*a*a*b` would make one run for ever.
function matches(pattern: string, text: string): boolean {
  const pieces = pattern.split("*");
  const first = pieces[0] ?? "";
  const last = pieces.at(-1) ?? "";
  if (pieces.length === 1) return text === pattern;
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) return false;

  const end = text.length - last.length;
  let from = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const at = text.indexOf(piece, from);
    if (at < 0 || at + piece.length > end) return false;
    from = at + piece.length;
  }
  return true;
}
