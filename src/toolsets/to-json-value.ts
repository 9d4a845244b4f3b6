/** Converts a value to JSON data: circular references, deep nesting and binary data are replaced by placeholders. */
export function toJsonValue(value: unknown): unknown {
  return convert(value, []);
}

function convert(value: unknown, ancestors: object[]): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value === "number") return Number.isFinite(value) ? value || 0 : String(value);
  if (typeof value !== "object" || value === null) return value;
  if (ancestors.includes(value)) return "[Circular]";
  if (ancestors.length > 100) return "[Too deep]";

  const inside = [...ancestors, value];
  if (Array.isArray(value)) return value.map((item) => convert(item, inside) ?? null);
  if (value instanceof Set) return [...value].map((item) => convert(item, inside) ?? null);
  if (value instanceof Map)
    return convertMembers(
      [...value].map(([key, member]) => [String(key), member]),
      inside,
    );
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if ("toJSON" in value && typeof value.toJSON === "function") return convert(value.toJSON(), inside);
  return convertMembers(Object.entries(value), inside);
}

function convertMembers(entries: [string, unknown][], inside: object[]): Record<string, unknown> {
  const kept = entries.map(([key, member]) => [key, convert(member, inside)] as const);
  return Object.fromEntries(kept.filter(([, member]) => member !== undefined));
}
