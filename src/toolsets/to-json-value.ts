/** A value as JSON can hold it: what refers to itself, is too deep or is no data is replaced by a word for it. */
export function toJsonValue(value: unknown): unknown {
  return plain(value, []);
}

function plain(value: unknown, above: object[]): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value === "number") return Number.isFinite(value) ? value || 0 : String(value);
  if (typeof value !== "object" || value === null) return value;
  if (above.includes(value)) return "[Circular]";
  if (above.length > 100) return "[Too deep]";

  const inside = [...above, value];
  if (Array.isArray(value)) return value.map((item) => plain(item, inside) ?? null);
  if (value instanceof Set) return [...value].map((item) => plain(item, inside) ?? null);
  if (value instanceof Map)
    return members(
      [...value].map(([key, member]) => [String(key), member]),
      inside,
    );
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if ("toJSON" in value && typeof value.toJSON === "function") return plain(value.toJSON(), inside);
  return members(Object.entries(value), inside);
}

function members(entries: [string, unknown][], inside: object[]): Record<string, unknown> {
  const kept = entries.map(([key, member]) => [key, plain(member, inside)] as const);
  return Object.fromEntries(kept.filter(([, member]) => member !== undefined));
}
