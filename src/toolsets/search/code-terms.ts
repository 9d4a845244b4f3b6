const identifier = /[\p{L}_$][\p{L}\p{N}_$]*/gu;
const maxTermLength = 64;

/** Splits a text into lower-case terms: each identifier, and the parts of camelCase and snake_case identifiers. */
export function codeTerms(text: string): string[] {
  const terms: string[] = [];
  for (const [word] of text.matchAll(identifier)) {
    if (word.length > maxTermLength) continue;
    const whole = word.toLowerCase();
    const parts = splitIdentifier(word);
    terms.push(whole);
    if (parts.length > 1 || parts[0] !== whole) terms.push(...parts);
  }
  return terms;
}

/** Splits `parseHTTPRequest_v2` into parse, http, request and v2. */
export function splitIdentifier(word: string): string[] {
  return word
    .replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, "$1 $2")
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((part) => part.length > 1);
}
