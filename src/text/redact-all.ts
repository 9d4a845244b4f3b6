/** The value with every text in it redacted, before any of them is cut: half a secret is not found any more. */
export function redactDeep<T>(value: T, redact: (text: string) => string): T {
  return change(value) as T;

  function change(part: unknown): unknown {
    if (typeof part === "string") return redact(part);
    if (Array.isArray(part)) return part.map(change);
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([key, member]) => [redact(key), change(member)]));
  }
}
